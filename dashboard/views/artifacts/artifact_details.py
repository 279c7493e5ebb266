"""One artifact: what it is, where it comes from, how to check it."""

from collections.abc import Sequence

import streamlit as st

from dashboard import page_files
from dashboard.analysis.drafter_lineage import ancestors, drafter_version, first_version, origin, pretrained
from dashboard.analysis.drafter_training import accuracies
from dashboard.auth.api_client import client
from dashboard.charts.drafter_accuracy import drafter_accuracy
from dashboard.text.escaping import escaped
from dashboard.text.formats import number, size, words
from dashboard.views.artifacts.artifact_list import accept_length, download
from dashboard.widgets.panel import chart, panel
from dashboard.widgets.table import link, table
from longtail.schemas.artifacts import Artifact, ArtifactCard
from longtail.schemas.runs import BEFORE_STEPS, Run
from longtail.schemas.telemetry import DrafterSession

LATEST = 50
"""Versions of a lineage that are listed."""


def artifact_card(artifact_id: str) -> None:
    artifact = client().artifact(artifact_id)
    run = client().run(artifact.run_id)
    _head(artifact)
    sessions = client().drafters(run.id) if artifact.type == "drafter" else []
    left, right = st.columns([2, 3])
    with left:
        _facts(artifact, run, sessions)
        _versions(artifact)
    with right, panel("Model card", "What the file says of itself, as text."):
        if artifact.card:
            st.code(artifact.card, language=None, wrap_lines=True)
        else:
            st.caption("There is no model card in it." if artifact.stored else "It is not in the artifact store yet.")
    if artifact.type == "drafter":
        _lineage(artifact, run, sessions)


def _head(artifact: ArtifactCard) -> None:
    st.page_link(page_files.ARTIFACTS, label="All artifacts", icon="", query_params={})
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(escaped(artifact.name), anchor=False, width="content")
        st.badge(f"v{artifact.version}", color="gray")
        st.badge(escaped(artifact.type), color="gray")
        st.space("stretch")
        download(artifact)
    if artifact.missing:
        st.error("Its content was looked for and is not there.", icon="⚠️")


def _facts(artifact: ArtifactCard, run: Run, sessions: Sequence[DrafterSession]) -> None:
    facts = {"Run": link(escaped(run.name), run.id), "Made": f"{artifact.created_at:%Y-%m-%d %H:%M:%S} UTC"}
    facts["Size"] = size(artifact.bytes)
    if artifact.type == "drafter":
        facts["Accept length"] = f"{accept_length(artifact, run.summary.get('accept_length'))} tokens a target pass"
        published = ancestors(sessions, drafter_version(artifact.metadata))
        held_out = run.pretraining.held_out if run.pretraining else None
        facts["Held-out acceptance"] = number(published[0].session.held_out_after if published else held_out, 3)
    facts |= {escaped(words(key)).capitalize(): escaped(value) for key, value in artifact.metadata.items() if key != "accept_length"}
    with panel("What it is"):
        st.table({"": list(facts), " ": list(facts.values())}, border="horizontal", hide_index=True, hide_header=True)
        st.caption("SHA-256 checksum, which sha256sum says of the download too:")
        st.code(artifact.sha256, language=None, wrap_lines=True)


def _versions(artifact: Artifact) -> None:
    """The other files that its run has left under this name."""
    others = [each for each in client().artifacts(artifact.run_id) if each.name == artifact.name and each.id != artifact.id]
    if not others:
        return
    with panel("Other versions", "A run that leaves other content under a name makes another version of it."):
        for each in sorted(others, key=lambda each: -each.version):
            label = f"v{each.version}, {each.created_at:%Y-%m-%d %H:%M} UTC"
            st.page_link(page_files.ARTIFACTS, label=label, icon="", query_params={"id": each.id})


def _lineage(artifact: Artifact, run: Run, sessions: Sequence[DrafterSession]) -> None:
    found = ancestors(sessions, drafter_version(artifact.metadata), first_version(run))
    with panel("Lineage", f"The latest {LATEST} versions that the run published, and the one that each was trained from."):
        if found:
            chart(drafter_accuracy(accuracies(sessions, "accepted drafts"), "accepted drafts"), "lineage")
            table([each.row() for each in found[:LATEST]])
        elif run.pretraining is None:
            st.caption("The run has published no version of its own.")
        if learned := pretrained(run):
            st.markdown(escaped(learned))
        st.markdown(f"Version 0: {escaped(origin(run))}")
        if run.parent_id is not None:
            after = "" if run.resumed_step is None else f" and goes on after its step {run.resumed_step}, with its drafter"
            if run.resumed_step == BEFORE_STEPS:
                after = " and goes on with its drafter's training"
            st.markdown(f"The run was made from {link(run.parent_id, run.parent_id)}{after}.")
