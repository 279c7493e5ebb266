"""Whether the policy learns soundly, and how good it is on prompts that it is not trained on."""

import re

import streamlit as st

from dashboard.analysis.series import finite
from dashboard.analysis.unmeasured_metrics import why_unmeasured
from dashboard.charts import metric_curves
from dashboard.data.run_data import DataQuery, RunData
from dashboard.views.run.tabs.tab import ENTROPY, KL, MetricChart, Tab, training_run
from dashboard.widgets.panel import chart, empty, panel, to_come
from longtail.schemas.telemetry import Series

FIGURES = (
    MetricChart("loss", "Loss", "loss", "It hovers around 0 and need not fall: whether the run learns is seen in the reward."),
    KL,
    MetricChart(
        "gradient_norm",
        "Gradient norm",
        "norm before clipping",
        "Steady is healthy. Above algorithm.max_gradient_norm it is clipped; peaks that last tell of a learning rate that is too high.",
    ),
    ENTROPY,
    MetricChart(
        "clip_share",
        "Clip share",
        "share of tokens",
        "Tokens whose update was cut off. Some percent are healthy; above 0.2 lower the learning rate.",
    ),
    MetricChart(
        "logprob_gap",
        "Engine and trainer",
        "gap of log-probs (nats)",
        "Mean difference of a token's log-prob between the two. About 1e-6 in float32, 0.01 in bfloat16; above 0.05 look into it.",
    ),
    MetricChart("learning_rate", "Learning rate", "learning rate", "It rises over warmup_steps, then does as algorithm.schedule says."),
)
PASS = re.compile(r"eval/pass_at_(\d+)")
COLUMNS = 3


def show(data: RunData) -> None:
    if not any(data.series(figure.key).steps for figure in FIGURES):
        with panel("Update", "Loss, KL and the like of each step's policy update."):
            empty(to_come("The figures of each policy update will appear here."))
        return
    evaluation(data)
    for first in range(0, len(FIGURES), COLUMNS):
        for column, figure in zip(st.columns(COLUMNS), FIGURES[first : first + COLUMNS], strict=False):
            with column, panel(figure.title, figure.help):
                series = data.series(figure.key)
                drawn = metric_curves.small(series, figure.y) if finite(series) else None
                chart(drawn, figure.key, why_unmeasured(data.run.config, figure.key) or "Not measured.")


def evaluation(data: RunData) -> None:
    """Nothing of a run that has not evaluated."""
    solved = passes(data)
    if not solved:
        return
    left, right = st.columns(2)
    with (
        left,
        panel("Evaluation", "Validation prompts that one response, or one of K, solves. The gap to the reward in training is overfitting."),
    ):
        chart(metric_curves.values(solved, "share of prompts solved", from_zero=True), "pass")
    with right, panel("Length in evaluation", "Mean length of the responses to validation prompts."):
        chart(metric_curves.values({"mean length": data.series("eval/response_tokens")}, "tokens", from_zero=True), "eval-length")


def passes(data: RunData) -> dict[str, Series]:
    """``pass@1``, ``pass@K``, by rising K."""
    found = {int(match[1]): data.metrics[key] for key in data.metrics if (match := PASS.fullmatch(key))}
    return {f"pass@{k}": found[k] for k in sorted(found)}


TAB = Tab("Training", show, DataQuery(metric_keys=(*(figure.key for figure in FIGURES), "eval/*")), training_run)
