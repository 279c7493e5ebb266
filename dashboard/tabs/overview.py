"""Is it training, where does the time go, and what is to be done?"""

import streamlit as st

from dashboard.advice import advice, alarms, figures
from dashboard.charts import curves, lengths, phases
from dashboard.charts.machines import PREFIX
from dashboard.charts.theme import PHASES
from dashboard.feed import Feed
from dashboard.formats import plain
from dashboard.pairs import section, speculates
from dashboard.panels.frame import chart, empty, panel
from dashboard.tabs.tab import Needs, Tab, loop

DRAWN = ("reward_mean", *(f"phase/{name}" for name in PHASES))
JUDGED = ("step_seconds", "idle_seconds", "trained_seconds", "accept_length", "logprob_gap", "clip_share", "entropy", f"{PREFIX}*")


def show(feed: Feed) -> None:
    left, right = st.columns(2)
    with left:
        reward(feed)
    with right:
        step_time(feed)
    with left:
        length_percentiles(feed)
    with right:
        to_do(feed)


def reward(feed: Feed) -> None:
    with panel("Reward", "Mean reward of each step's responses, and its mean over a window of steps.") as head:
        window = head.selectbox(
            "Smoothing", (1, 3, 5, 9, 15, 25), 2, key="smoothing", format_func=_over, label_visibility="collapsed", width=160
        )
        if feed.series("reward_mean").steps:
            chart(curves.rewards({"reward": feed.series("reward_mean")}, window), "reward")
        else:
            empty("The reward of each step will appear here.")


def step_time(feed: Feed) -> None:
    with panel("Time per step", "Where the seconds of each step go."):
        if feed.series("phase/rollout").steps:
            chart(phases.phases(feed.metrics), "phases")
        else:
            empty("The time of each phase will appear here.")


def length_percentiles(feed: Feed) -> None:
    with panel("Lengths over steps", "The gap between the 90th percentile and the longest is the tail that speculation shortens."):
        if feed.lengths:
            chart(lengths.percentiles(feed.lengths), "percentiles")
        else:
            empty("Percentiles of the response lengths will appear here.")


def to_do(feed: Feed) -> None:
    """Alarms of the run, and advice from its latest figures."""
    with panel("Alarms and advice", "Alarms are the engine's. Advice follows from the figures of the last ten steps."):
        if not feed.series("step_seconds").steps:
            empty("What the figures of the first steps suggest will appear here.")
            return
        workers = section(feed.run.config, "cluster").get("workers", 1)
        found = advice(figures(speculates(feed.run.config), workers, feed.metrics, feed.lengths, feed.recent))
        raised = alarms(feed.alarms)
        for line, count in raised:
            often = "once" if count == 1 else f"{count} times, last"
            st.warning(f"**{plain(line.code)}**, {often} at step {line.step}: {plain(line.message)}", icon="⚠️")
        for one in found:
            st.info(f"**{plain(one.seen)}.** {plain(one.do)}")
        if not raised and not found:
            empty("No alarms, and nothing that stands out.")


def _over(window: int) -> str:
    return "each step" if window == 1 else f"mean over {window} steps"


TAB = Tab("Overview", show, Needs(("lengths", "recent", "alarms"), (*DRAWN, *JUDGED)), loop)
