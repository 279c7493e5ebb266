"""What drafts, how many of its tokens are accepted, and what the tuner makes of it."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard.analysis.acceptance import accept_lengths
from dashboard.analysis.tuner_performance import MEASURED_PULLS, WINDOW, UsesByBatchSize, batch_size_names, regret, strategy_uses
from dashboard.charts import metric_curves, tuner_choices
from dashboard.charts.acceptance_by_position import acceptance_by_position
from dashboard.charts.strategy_heatmap import MEASURES, strategy_heatmap
from dashboard.charts.strategy_names import strategy_name, strategy_order
from dashboard.data.run_data import SPAN_STEPS, DataQuery, RunData
from dashboard.text.formats import MISSING, SPACE, duration, every, last_steps, percent
from dashboard.views.run.tabs.tab import Tab, speculating_run
from dashboard.widgets.cards import Card, grid_or_cards
from dashboard.widgets.panel import chart, empty, panel, to_come
from longtail.schemas.telemetry import SpeculationStep

SPANS = (WINDOW, 100, None)
ACCEPTED = "Tokens that one pass of the target yields a request, its own token included. Plain decoding: 1."
BY_POSITION = "Share of drafted tokens that the target accepted, by their place in the draft and by what drafted them."
STRATEGIES = (
    f"By the number of requests that a worker has running. Fastest: of those used at least {MEASURED_PULLS} times; what has been used less "
    "often has a question mark. Pulls: how many decode steps used it.\n\n"
    "Plain: nothing is drafted. Chain 4: the drafter proposes 4 tokens in a row. Tree 6x3, verify 11: 6 tokens deep with 3 candidates "
    "at each, of which the target checks the best 11. N-gram 8: up to 8 tokens that followed the same words in other responses."
)


def show(data: RunData) -> None:
    left, right = st.columns(2)
    with left, panel("Accept length", ACCEPTED):
        series = accept_lengths(data.speculation) | {metric_curves.ALL: data.series("accept_length")}
        figure = metric_curves.accept_lengths(series) if data.series("accept_length").steps else None
        chart(figure, "accept", to_come("The accept length of each step will appear here."))
    with right, panel("Acceptance by position", BY_POSITION):
        figure = acceptance_by_position(data.speculation, data.recent, data.spacing) if data.speculation else None
        chart(figure, "acceptance", to_come("Acceptance by draft position will appear here."))
    _strategies(data)
    left, right = st.columns(2)
    with left, panel("Choices", "What the tuner, which picks a strategy for each decode step, spends the time of a step's decoding on."):
        figure = tuner_choices.choices_by_step(data.speculation) if data.speculation else None
        chart(figure, "choices", to_come("Each strategy's share of the decode time will appear here."))
    with right, panel("Regret", regret_help(data.spacing)):
        _regret(data.speculation, data.spacing)


def regret_help(spacing: int) -> str:
    """Of a long run only some steps are at hand, ``spacing`` apart."""
    over = f"the {WINDOW} steps" if spacing == 1 else f"{WINDOW} of the {WINDOW * spacing:,} steps"
    return (
        f"Seconds that the fastest strategy of each batch size would have saved, as measured over {over} before. The trials by which "
        "the tuner learns are among them."
    )


def _strategies(data: RunData) -> None:
    with panel("Strategies", STRATEGIES) as head:
        if not data.speculation:
            empty(to_come("The speed of each strategy will appear here."))
            return
        span = head.selectbox("Steps", SPANS, key="arm-steps", format_func=_last, label_visibility="collapsed", width=160)
        measure = head.segmented_control(
            "Measure",
            list(MEASURES),
            default="tokens per second",
            required=True,
            key="arm-measure",
            label_visibility="collapsed",
        )
        steps = latest_steps(data, span)
        uses = strategy_uses(steps)
        chart(strategy_heatmap(uses, measure), "strategies")
        if len(steps) < (span or data.run.step) and data.spacing > 1:
            st.caption(f"Of {every(data.spacing)}, as the run is long.")
        with st.expander("Measured cost: milliseconds of a decode step"):
            _costs(uses)


def latest_steps(data: RunData, span: int | None) -> Sequence[SpeculationStep]:
    """Those of the latest ``span`` steps, every one where they are at hand; None: of all steps shown."""
    if span is None:
        return data.speculation
    known = data.recent if span <= SPAN_STEPS else data.speculation
    return [item for item in known if item.step >= data.run.step - span]


def _costs(uses: UsesByBatchSize) -> None:
    """Of draft passes and one pass of the target together, as the runs' own decoding took them."""
    names = batch_size_names(uses)
    strategies = sorted({strategy for row in uses.values() for strategy in row}, key=strategy_order)
    headings = {bucket: f"{names[bucket]} {'request' if names[bucket] == '1' else 'requests'}" for bucket in sorted(uses)}
    config = {heading: st.column_config.NumberColumn(format="%.2f ms") for heading in headings.values()}
    rows: list[dict[str, Any]] = [
        {"strategy": strategy_name(strategy)}
        | {heading: uses[bucket][strategy].milliseconds if strategy in uses[bucket] else None for bucket, heading in headings.items()}
        for strategy in strategies
    ]
    cards = [Card(row["strategy"], {name: f"{row[name]:.2f}{SPACE}ms" for name in config if row[name] is not None}) for row in rows]
    grid_or_cards("Measured cost", rows, cards, column_config=config, placeholder=MISSING)


def _regret(steps: Sequence[SpeculationStep], spacing: int) -> None:
    found = regret(steps)
    if not found:
        empty(to_come("What each step lost to strategies that were not the best will appear here."))
        return
    chart(tuner_choices.regret_by_step(found), "regret")
    lost, seconds = sum(one.lost for one in found), sum(one.seconds for one in found)
    share = percent(lost / seconds if seconds else None, 1)
    shown = "of decoding" if spacing == 1 else f"of decoding in {every(spacing)}"
    st.caption(f"{duration(lost)} of {duration(seconds)} {shown}, all workers together: {share}")


def _last(span: int | None) -> str:
    return last_steps(span) if span else "all steps"


TAB = Tab("Speculation", show, DataQuery(("speculation", "recent"), ("accept_length",)), speculating_run)
