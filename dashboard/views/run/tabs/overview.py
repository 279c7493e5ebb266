"""Is it training, where does the time go, and what is to be done?"""

import streamlit as st

from dashboard.analysis.advice import RECENT, advice, how_often, latest_alarms, recent_steps, what_failed
from dashboard.analysis.run_config import section, speculates
from dashboard.analysis.series import finite
from dashboard.analysis.step_phases import PHASES
from dashboard.charts import metric_curves, phase_times, response_lengths
from dashboard.data.run_data import LOG_LINES, DataQuery, RunData
from dashboard.text.escaping import escaped
from dashboard.views.run.tabs.tab import Tab, training_run
from dashboard.widgets.panel import chart, empty, panel, to_come

DRAWN = ("reward_mean", *(f"phase/{name}" for name in PHASES))
JUDGED = ("step_seconds", "entropy")


def show(data: RunData) -> None:
    left, right = st.columns(2)
    with left:
        reward(data)
    with right:
        step_time(data)
    left, right = st.columns(2)  # anew, so that neighbours are of one height
    with left:
        length_percentiles(data)
    with right:
        to_do(data)


def reward(data: RunData) -> None:
    with panel("Reward", "Mean reward of each step's responses, and its mean over a window of steps.") as head:
        window = head.selectbox(
            "Smoothing", (1, 3, 5, 9, 15, 25), 2, key="smoothing", format_func=_over, label_visibility="collapsed", width=160
        )
        rewards = data.series("reward_mean")
        figure = metric_curves.rewards({"reward": rewards}, window) if finite(rewards) else None
        chart(figure, "reward", to_come("The reward of each step will appear here."))


def step_time(data: RunData) -> None:
    with panel("Time per step", "Where the seconds of each step go."):
        figure = phase_times.phases_by_step(data.metrics) if data.series("phase/rollout").steps else None
        chart(figure, "phases", to_come("The time of each phase will appear here."))


def length_percentiles(data: RunData) -> None:
    with panel("Lengths over steps", "The gap between the 90th percentile and the longest is the tail that speculation shortens."):
        figure = response_lengths.percentiles(data.lengths) if data.lengths else None
        chart(figure, "percentiles", to_come("Percentiles of the response lengths will appear here."))


def to_do(data: RunData) -> None:
    """What made the run fail, its alarms, and advice from its latest figures."""
    with panel("Alarms and advice", "Alarms are the engine's. Advice follows from the figures of the last ten steps."):
        if data.run.state == "failed":
            st.error(escaped(what_failed(data.run)), icon="⚠️")
        if not data.series("step_seconds").steps and data.run.state != "failed":
            empty(to_come("What the figures of the first steps suggest will appear here."))
            return
        workers = section(data.run.config, "cluster").get("workers", 1)
        entropy = [value for _, value in finite(data.series("entropy"))]
        seen = recent_steps(speculates(data.run.config), workers, data.latest, data.lengths, data.recent, entropy[0] if entropy else None)
        found = advice(seen)
        raised = latest_alarms(data.alarms)
        for line, count in raised:
            often = how_often(line, count, more=len(data.alarms) >= LOG_LINES)
            st.warning(f"**{escaped(line.code)}**, {often}: {escaped(line.message)}", icon="⚠️")
        for one in found:
            st.info(f"**{escaped(one.seen)}.** {escaped(one.do)}")
        if not raised and not found and data.run.state != "failed":
            empty("No alarms, and nothing that stands out.")


def _over(window: int) -> str:
    return "each step" if window == 1 else f"mean over {window} steps"


TAB = Tab("Overview", show, DataQuery(("lengths", "recent", "alarms"), (*DRAWN, *JUDGED), RECENT), training_run)
