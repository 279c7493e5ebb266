"""What drafts, how many of its tokens are accepted, and what the tuner makes of it."""

from collections.abc import Sequence

import streamlit as st

from backend.schemas.telemetry import SpeculationStep
from dashboard import arms
from dashboard.charts import curves, speculation, tuning
from dashboard.charts.strategies import strategy_name, strategy_order
from dashboard.feed import Feed
from dashboard.formats import MISSING, duration, last_steps, percent
from dashboard.panels.frame import chart, empty, panel
from dashboard.tabs.tab import Needs, Tab, tlt

SPANS = (arms.WINDOW, 100, None)
ACCEPTED = "Tokens that one pass of the target yields a request, its own token included. Plain decoding: 1."
BY_POSITION = "Share of drafted tokens that the target accepted, by their place in the draft and by what drafted them."
STRATEGIES = (
    f"By the number of requests that a worker has running. Fastest: of those used at least {arms.ENOUGH} times; what has been used less "
    "often has a question mark. Pulls: how many decode steps used it.\n\n"
    "Plain: nothing is drafted. Chain 4: the drafter proposes 4 tokens in a row. Tree 6x3, verify 12: 6 tokens deep with 3 candidates "
    "at each, of which the target checks the best 12. N-gram 8: up to 8 tokens that followed the same words in other responses."
)
REGRET = (
    f"Seconds that the fastest strategy of each batch size would have saved, as measured over the {arms.WINDOW} steps before. The trials "
    "by which the tuner learns are among them."
)


def show(feed: Feed) -> None:
    left, right = st.columns(2)
    with left, panel("Accept length", ACCEPTED):
        series = speculation.accept_lengths(feed.speculation) | {curves.ALL: feed.series("accept_length")}
        if feed.series("accept_length").steps:
            chart(curves.accept_lengths(series), "accept")
        else:
            empty("The accept length of each step will appear here.")
    with right, panel("Acceptance by position", BY_POSITION):
        if feed.speculation:
            chart(speculation.acceptance(feed.speculation), "acceptance")
        else:
            empty("Acceptance by draft position will appear here.")
    _strategies(feed.speculation)
    left, right = st.columns(2)
    with left, panel("Choices", "What the tuner, which picks a strategy for each decode step, spends the time of a step's decoding on."):
        if feed.speculation:
            chart(tuning.choices(feed.speculation), "choices")
        else:
            empty("Each strategy's share of the decode time will appear here.")
    with right, panel("Regret", REGRET):
        _regret(feed.speculation)


def _strategies(steps: Sequence[SpeculationStep]) -> None:
    with panel("Strategies", STRATEGIES) as head:
        if not steps:
            empty("The speed of each strategy will appear here.")
            return
        span = head.selectbox("Steps", SPANS, key="arm-steps", format_func=_last, label_visibility="collapsed", width=160)
        measure = head.segmented_control(
            "Measure", list(tuning.MEASURES), default="tokens per second", required=True, key="arm-measure", label_visibility="collapsed"
        )
        uses = arms.used(steps[-span:] if span else steps)
        chart(tuning.heat(uses, measure), "strategies")
        with st.expander("Measured cost: milliseconds of a decode step"):
            _costs(uses)


def _costs(uses: arms.Uses) -> None:
    """Of draft passes and one pass of the target together, as the runs' own decoding took them."""
    names = arms.bucket_names(uses)
    strategies = sorted({strategy for row in uses.values() for strategy in row}, key=strategy_order)
    columns = {
        f"{names[bucket]} requests": [row[strategy].milliseconds if strategy in row else None for strategy in strategies]
        for bucket, row in sorted(uses.items())
    }
    config = {name: st.column_config.NumberColumn(format="%.2f ms") for name in columns}
    rows = {"strategy": [strategy_name(strategy) for strategy in strategies]} | columns
    st.dataframe(rows, hide_index=True, column_config=config, placeholder=MISSING)


def _regret(steps: Sequence[SpeculationStep]) -> None:
    found = arms.regret(steps)
    if not found:
        empty("What each step lost to strategies that were not the best will appear here.")
        return
    chart(tuning.lost(found), "regret")
    lost, seconds = sum(one.lost for one in found), sum(one.seconds for one in found)
    share = percent(lost / seconds if seconds else None, 1)
    st.caption(f"{duration(lost)} of {duration(seconds)} of decoding in the steps shown, all workers together: {share}")


def _last(span: int | None) -> str:
    return last_steps(span) if span else "all steps shown"


TAB = Tab("Speculation", show, Needs(("speculation",), ("accept_length",)), tlt)
