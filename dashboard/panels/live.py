"""The charts of the run page."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from backend.schemas.comparison import Comparison
from dashboard import answers
from dashboard.charts import curves, drafters, lengths, phases, speculation, timeline
from dashboard.feed import SPAN_STEPS, Feed
from dashboard.formats import percent, plain
from dashboard.pairs import length_limit, speculates
from dashboard.panels.frame import chart, empty, panel

LATEST, ALL = "latest step", "all steps"


def first_questions(feed: Feed, comparison: Comparison | None) -> None:
    pair = {speculates(item.run.config): item for item in comparison.items} if comparison else {}
    given = (
        answers.training(feed.series("reward_mean"), feed.run.steps),
        answers.faster(feed.run, feed.series("step_seconds"), pair.get(False), pair.get(True)),
        answers.why(
            feed.run,
            feed.series("accept_length"),
            feed.series("idle_seconds"),
            feed.series("trained_seconds"),
            feed.lengths,
            feed.drafters,
        ),
    )
    for column, answer in zip(st.columns(3), given, strict=True):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            st.caption(answer.question)
            st.subheader(plain(answer.headline), anchor=False)
            st.caption(plain(answer.detail))


def training_charts(feed: Feed) -> None:
    left, right = st.columns(2)
    with left, panel("Reward", "Mean reward of each step's responses, and its mean over a window of steps.") as head:
        window = head.selectbox(
            "Smoothing", (1, 3, 5, 9, 15, 25), 2, key="smoothing", format_func=_over, label_visibility="collapsed", width=160
        )
        if feed.series("reward_mean").steps:
            chart(curves.rewards({"reward": feed.series("reward_mean")}, window), "reward")
        else:
            empty("The reward of each step will appear here.")
    with right, panel("Time per step", "Where the seconds of each step go."):
        if feed.series("phase/rollout").steps:
            chart(phases.phases(feed.metrics), "phases")
        else:
            empty("The time of each phase will appear here.")


def length_charts(feed: Feed) -> None:
    left, right = st.columns(2)
    limit = length_limit(feed.run.config)
    with left, panel("Response lengths", "Most responses are short; every worker waits for the few longest.") as head:
        if feed.lengths:
            _histogram(feed, limit, head)
        else:
            empty("The lengths of each step's responses will appear here.")
    with right, panel("Lengths over steps", "The gap between the 90th percentile and the longest is the tail that speculation shortens."):
        if feed.lengths:
            chart(lengths.percentiles(feed.lengths), "percentiles")
        else:
            empty("Percentiles of the response lengths will appear here.")


def _histogram(feed: Feed, limit: int, head: DeltaGenerator) -> None:
    options = [LATEST, ALL, *(f"step {item.step}" for item in reversed(feed.lengths))]
    chosen = head.selectbox("Step", options, key="length-step", label_visibility="collapsed", width=160)
    picked = {LATEST: feed.lengths[-1:], ALL: feed.lengths}.get(chosen) or [item for item in feed.lengths if f"step {item.step}" == chosen]
    responses = [length for item in picked for length in item.lengths]
    steps = f"step {picked[0].step}" if len(picked) == 1 else f"steps {picked[0].step} to {picked[-1].step}"
    chart(lengths.histogram(responses, limit), "lengths")
    st.caption(f"{steps}: {len(responses):,} responses, {sum(item.truncated for item in picked):,} cut at the limit of {limit:,} tokens")


def worker_timeline(feed: Feed) -> None:
    help = (
        "BUSY: generating. IDLE: done, waiting for the slowest. TRAINING: training the drafter meanwhile. UPDATE: inference, update, sync."
    )
    with panel("Workers", help) as head:
        if not feed.spans:
            empty("What each worker does will appear here after the first step.")
            return
        window = head.segmented_control(
            "Steps shown", (1, 3, 10, SPAN_STEPS), default=3, required=True, key="window", format_func=_last, label_visibility="collapsed"
        )
        last = max(span.step for span in feed.spans)
        origin = feed.run.started_at.timestamp() if feed.run.started_at else feed.spans[0].start
        shown = [span for span in feed.spans if span.step > last - (window or SPAN_STEPS)]
        chart(timeline.timeline(shown, min(origin, shown[0].start)), "timeline")
        idle, trained = (sum(feed_value(feed, key)) for key in ("idle_seconds", "trained_seconds"))
        if idle and speculates(feed.run.config):
            st.caption(f"{percent(trained / idle)} of all waiting time was used to train the drafter.")
        for reason in answers.untrained([item for item in feed.speculation if last - (window or SPAN_STEPS) < item.step <= last]):
            st.caption(plain(f"{reason}."))


def _over(window: int) -> str:
    return "each step" if window == 1 else f"mean over {window} steps"


def _last(steps: int) -> str:
    return "last step" if steps == 1 else f"last {steps} steps"


def feed_value(feed: Feed, key: str) -> list[float]:
    return [value for value in feed.series(key).values if value is not None]


def speculation_charts(feed: Feed) -> None:
    if not speculates(feed.run.config):
        return
    columns = [*st.columns(2), *st.columns(2)]
    with columns[0], panel("Accept length", "Tokens that one pass of the target yields, its own token included. Plain decoding: 1."):
        if feed.series("accept_length").steps:
            chart(curves.accept_lengths({"accept length": feed.series("accept_length")}), "accept")
        else:
            empty("The accept length of each step will appear here.")
    with columns[1], panel("Acceptance by position", "Share of drafted tokens that the target accepted, by their place in the draft."):
        if feed.speculation:
            chart(speculation.acceptance(feed.speculation), "acceptance")
        else:
            empty("Acceptance by draft position will appear here.")
    with (
        columns[2],
        panel("Strategies", "Tokens per second by number of running requests, over the last 20 steps; labels: share of the time."),
    ):
        if feed.speculation:
            chart(speculation.strategies(feed.speculation[-20:]), "strategies")
        else:
            empty("The speed of each strategy will appear here.")
    with (
        columns[3],
        panel("Drafter versions", "Drafts accepted on held-out responses before and after each training; only a better one is published."),
    ):
        if feed.drafters:
            chart(drafters.held_out(feed.drafters), "drafters")
        else:
            empty("Each training session of the drafter will appear here.")
