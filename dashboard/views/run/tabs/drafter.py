"""The drafter: its versions, how well they foresee the target, and why one was published or not."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.analysis.drafter_training import FIELDS, Accuracy, accuracies, accuracy_drops, dips_told
from dashboard.charts import drafter_accuracy
from dashboard.data.run_data import SESSION_STEPS, DataQuery, RunData
from dashboard.text.formats import MISSING, SPACE, number
from dashboard.views.run.artifact_downloads import artifact_downloads
from dashboard.views.run.tabs.tab import Tab, speculating_run
from dashboard.widgets.cards import Card, grid_or_cards
from dashboard.widgets.panel import chart, empty, panel, to_come
from longtail.schemas.telemetry import DrafterSession

ACCURACY = (
    "On responses that are never trained on, before and after each training. Accepted drafts: of chains of 4, the share that sampling is "
    "expected to accept; only what raises it is published. Top-1 and top-3: how often the target's most likely token is the drafter's, or "
    "among its three most likely."
)
CARDS = 30
"""On a phone: some screens full."""
NOISE = "Standard error of what the session gained in accepted drafts. Only a gain beyond it is published."
DIPS = (
    "Each update of the target makes the drafter foresee it less well; training brings that back. Both against the level after the session "
    "before; newer responses are part of the difference."
)


def show(data: RunData) -> None:
    left, right = st.columns(2)
    with left, panel("Held-out accuracy", ACCURACY) as head:
        measure = head.segmented_control(
            "Measure", list(FIELDS), default="accepted drafts", required=True, key="accuracy", label_visibility="collapsed"
        )
        found = accuracies(data.drafters, measure)
        figure = drafter_accuracy.drafter_accuracy(found, measure) if found else None
        chart(figure, "drafters", to_come("What each training session of the drafter brought will appear here."))
    with right, panel("Dips at target updates", DIPS):
        _dips(accuracies(data.sessions, measure), measure)
    with panel("Versions", "One row for each training session, the latest first."):
        if data.sessions:
            _versions(data.sessions)
        else:
            empty(to_come("Each training session of the drafter will appear here."))
    if data.run.step > SESSION_STEPS:
        shown = "every session" if data.spacing == 1 else f"the first session of every {data.spacing} steps"
        st.caption(f"Dips and versions are those of the last {SESSION_STEPS} steps. The curve shows {shown}.")
    artifact_downloads([artifact for artifact in data.artifacts if artifact.type == "drafter"])


def _dips(found: Sequence[Accuracy], measure: str) -> None:
    fallen = accuracy_drops(found)
    if not fallen:
        empty(to_come("From the second training session on, what the updates between two of them took away will appear here."))
        return
    chart(drafter_accuracy.accuracy_drops_by_session(fallen, measure), "dips")
    st.caption(dips_told(fallen))


def _versions(sessions: Sequence[DrafterSession]) -> None:
    rows = [
        {
            "step": session.step,
            "version": session.drafter_version,
            "published": "yes" if session.published else "no",
            "reason": session.reason,
            "accepted before": _percent(session.held_out_before),
            "accepted after": _percent(session.held_out_after),
            "top-1 before": _percent(session.top1_before),
            "top-1 after": _percent(session.top1_after),
            "top-3 before": _percent(session.top3_before),
            "top-3 after": _percent(session.top3_after),
            "micro-steps": session.microsteps,
            "tokens": session.tokens,
            "noise": _percent(session.noise),
            "loss": session.loss,
            "length mix off by": session.mix_distance,
        }
        for session in reversed(sessions)
    ]
    in_percent = [name for name in rows[0] if name.split()[-1] in ("before", "after", "noise")]
    shares = {name: st.column_config.NumberColumn(format="%.1f %%", help=NOISE if name == "noise" else None) for name in in_percent}
    numbers = {name: st.column_config.NumberColumn(format="%.3f") for name in ("loss", "length mix off by")}
    grid_or_cards("Versions", rows, [_card(row, in_percent) for row in rows[:CARDS]], column_config=shares | numbers, placeholder=MISSING)


def _card(row: Mapping[str, Any], in_percent: Collection[str]) -> Card:
    """Of a row: before and after beside each other."""
    told = {name: "" if row[name] is None else f"{row[name]:.1f}{SPACE}%" for name in in_percent}
    measures = ("accepted", "top-1", "top-3")
    facts = {measure: f"{told[f'{measure} before'] or MISSING}{SPACE}→{SPACE}{told[f'{measure} after'] or MISSING}" for measure in measures}
    facts |= {"noise": told["noise"], "micro-steps": f"{row['micro-steps']:,}", "tokens": f"{row['tokens']:,}"}
    facts |= {name: number(row[name], 3) for name in ("loss", "length mix off by")}
    published = "published" if row["published"] == "yes" else "not published"
    return Card(f"Step {row['step']}, version {row['version']}", facts, f"{published}: {row['reason']}")


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


TAB = Tab("Drafter", show, DataQuery(("drafters", "sessions", "artifacts")), speculating_run)
