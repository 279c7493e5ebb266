"""The drafter before the first step: what its training has brought, over its minutes, and what there is to take away."""

import streamlit as st

from dashboard.charts import pretraining_curves
from dashboard.data.run_data import DataQuery, RunData
from dashboard.views.run.artifact_downloads import artifact_downloads
from dashboard.views.run.tabs.tab import Tab, engine_run
from dashboard.widgets.panel import chart, panel, to_come
from longtail.schemas.runs import Run

EXPECTED = "Tokens that one pass of the target is expected to yield with chains of 4, by responses that are never trained on. Plain: 1."
SHARES = (
    "On responses that are never trained on. Accepted drafts: of chains of 4, the share that sampling is expected to accept. Top-1 and "
    "top-3: how often the target's most likely token is the drafter's, or among its three most likely."
)
WRITTEN = "What the drafter had to learn from so far, in all rounds together: written by the model itself, or read from a file."
SOON = "It will appear here after the first round."


def show(data: RunData) -> None:
    artifact_downloads([artifact for artifact in data.artifacts if artifact.type == "drafter"])
    rounds = data.pretraining
    left, right = st.columns(2)
    with left, panel("Expected accept length", EXPECTED):
        chart(pretraining_curves.accept_length(rounds) if rounds else None, "pretrained-length", to_come(SOON))
    with right, panel("Held-out accuracy", SHARES):
        chart(pretraining_curves.shares(rounds) if rounds else None, "pretrained-shares", to_come(SOON))
    left, right = st.columns(2)
    with left, panel("Learned from", WRITTEN) as head:
        choices = list(pretraining_curves.COUNTS)
        what = head.segmented_control("Count", choices, default=choices[0], required=True, key="written", label_visibility="collapsed")
        chart(pretraining_curves.written(rounds, what) if rounds else None, "pretrained-written", to_come(SOON))
    with right, panel("Loss", "Mean of each round's micro-steps."):
        chart(pretraining_curves.loss(rounds) if rounds else None, "pretrained-loss", to_come(SOON))


def pretraining_run(run: Run) -> bool:
    """Whether the run has trained its drafter before the first step, or is about to. One with steps does not train what auto has found
    among the platform's drafters, or, as its first rollout shows, the engine among its own."""
    rolls_out = run.starting_up is not None and run.starting_up.phase == "first_rollout"
    found = run.steps > 0 and (bool(run.drafter_id) or rolls_out)
    return engine_run(run) and (run.pretraining is not None or (run.pretrain_minutes > 0 and run.step == 0 and not found))


TAB = Tab("Pretraining", show, DataQuery(("pretraining", "artifacts")), pretraining_run)
