"""What the responses teach, and how the policy moves with it, on one page."""

import re

import streamlit as st

from dashboard.analysis.series import finite
from dashboard.analysis.unmeasured_metrics import why_unmeasured
from dashboard.charts import learning_signal, metric_curves
from dashboard.data.run_data import DataQuery, RunData
from dashboard.views.run.tabs.tab import ENTROPY, KL, MetricChart, Tab, training_run
from dashboard.widgets.panel import chart, panel
from longtail.schemas.telemetry import Series

DISTRIBUTION = (
    "The share of each step's responses by reward. A band that climbs is learning; one that splits in two is a task of two kinds."
)
GROUPS = "A prompt whose responses are all right, or all wrong, teaches nothing: there is no better one among them. Steady blue is healthy."
LENGTHS = "Wrong responses that grow while right ones do not are often loops; see the samples."
RATE = "Of each worker while it generates. A worker that is slower than the others holds everyone up."
FIGURES = (
    MetricChart("truncated_share", "Cut at the limit", "share of responses", "Responses that stopped at rollout.max_new_tokens."),
    MetricChart("reward_std", "Spread of the rewards", "standard deviation", "Of all rewards of a step. Near 0 nothing is left to learn."),
    MetricChart("kept_share", "Learned from", "share of responses", "The rest is of groups that teach nothing, where these are left out."),
    ENTROPY,
    KL,
    MetricChart("stale_share", "Staleness", "share of the tokens", "Tokens learned from that an older policy wrote (rollout.scheduling)."),
)
PREEMPTIONS = MetricChart(
    "preemptions",
    "Full cache",
    "responses that waited again",
    "Responses that gave up their place in a full cache, and were read anew later: raise rollout.cache_tokens, or lower max_batch.",
)
WORKER = re.compile(r"worker/(\d+)/tokens_per_second")
SOON = "Not told by this run, or no step has finished."


def show(data: RunData) -> None:
    left, right = st.columns(2)
    with left, panel("Rewards", DISTRIBUTION):
        chart(learning_signal.reward_distribution(data.lengths), "reward-distribution", SOON)
    with right, panel("Groups", GROUPS):
        chart(learning_signal.groups(data.metrics), "groups", SOON)
    left, right = st.columns(2)
    with left, panel("Length of right and wrong responses", LENGTHS):
        chart(learning_signal.lengths_by_outcome(data.metrics), "outcome-lengths", SOON)
    with right, panel("Throughput", RATE):
        chart(learning_signal.throughput(data.series("tokens_per_second"), worker_rates(data)), "throughput", SOON)
    figures = figures_for(data.series(PREEMPTIONS.key))
    for first in range(0, len(figures), 3):
        for column, each in zip(st.columns(3), figures[first : first + 3], strict=False):
            with column, panel(each.title, each.help):
                series = data.series(each.key)
                drawn = metric_curves.small(series, each.y) if finite(series) else None
                chart(drawn, f"learning-{each.key}", why_unmeasured(data.run.config, each.key) or SOON)


def figures_for(preemptions: Series) -> tuple[MetricChart, ...]:
    """A cache that was never full is nothing to show."""
    return (*FIGURES, PREEMPTIONS) if any(value for _, value in finite(preemptions)) else FIGURES


def worker_rates(data: RunData) -> dict[str, Series]:
    """By worker, in their order."""
    found = {int(match[1]): series for key, series in data.metrics.items() if (match := WORKER.fullmatch(key))}
    return {f"worker {number}": found[number] for number in sorted(found)}


KEYS = ("all_right_share", "all_wrong_share", "right_tokens", "wrong_tokens", "tokens_per_second", "worker/*")
TAB = Tab("Learning", show, DataQuery(("lengths",), (*KEYS, PREEMPTIONS.key, *(figure.key for figure in FIGURES))), training_run)
