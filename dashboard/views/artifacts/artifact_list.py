"""Artifacts of all runs, newest first."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import get_args

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import client
from dashboard.text.escaping import escaped, visible
from dashboard.text.formats import MISSING, ago, number, short, size
from dashboard.widgets.cell_labels import row_headings
from dashboard.widgets.panel import Color
from longtail.schemas.artifacts import Artifact, ArtifactType, ListedArtifact

PAGE = 25
WIDTHS = (1.7, 0.9, 2.7, 2, 1.1, 1, 0.8, 1.1, 1.1)
LONGEST_MODEL = 24
HEADINGS = ("Name and version", "Type", "Run", "Base model", "Drafter version", "Accept length", "Size", "Made", "")
TYPE_COLORS: dict[str, Color] = {"drafter": "green", "policy": "blue", "checkpoint": "orange", "file": "gray"}


def newest(count: int, types: Sequence[ArtifactType], query: str) -> tuple[list[ListedArtifact], bool]:
    """The first ``count``, and whether there are more."""
    api = client()
    found = list(islice(api.every(api.all_artifacts, types, query, limit=PAGE + 1), count + 1))
    return found[:count], len(found) > count


def artifact_list() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        query = st.text_input(
            "Search",
            type="search",
            placeholder="name, run, base model or checksum",
            key="search",
            live=True,
            bind="query-params",
            label_visibility="collapsed",
            width=320,
        )
        types = st.pills(
            "Type", get_args(ArtifactType), selection_mode="multi", key="type", bind="query-params", label_visibility="collapsed"
        )
    found, more = newest(st.session_state.setdefault("shown-artifacts", PAGE), types, query)
    if not found:
        st.info(
            "Nothing matches." if query or types else "No run has left a file yet. A finished run leaves its drafter and its policy here."
        )
        return
    with st.container(border=True, gap="xsmall", key="rows-artifacts"):
        row_headings("rows-artifacts", WIDTHS, HEADINGS)
        for artifact in found:
            _row(artifact, datetime.now(UTC))
    if more and st.button("Show more"):
        st.session_state["shown-artifacts"] += PAGE
        st.rerun()


def accept_length(artifact: Artifact, latest: float | None) -> str:
    """What the artifact says of itself, or else that of its run's latest step."""
    return escaped(artifact.metadata.get("accept_length") or number(latest))


def base_model(artifact: Artifact) -> str:
    """Its name without the folders or the owner before it: the page of the artifact has the whole."""
    return short(visible(artifact.metadata.get("base_model") or MISSING).rstrip("/").rpartition("/")[-1], LONGEST_MODEL)


def download(artifact: Artifact) -> None:
    """A link to the API, signed for the visitor; the browser loads the file from there."""
    if artifact.missing:
        st.caption("missing")
    else:
        st.link_button("Download", client().artifact_url(artifact.id), key=f"download-{artifact.id}")


def _row(artifact: ListedArtifact, now: datetime) -> None:
    name, kind, run, model, version, accept, bytes_, made, link = st.columns(WIDTHS, vertical_alignment="center")
    with name, st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="xsmall"):
        st.page_link(page_files.ARTIFACTS, label=f"**{escaped(artifact.name)}**", icon="", query_params={"id": artifact.id})
        st.badge(f"v{artifact.version}", color="gray")
    kind.badge(escaped(artifact.type), color=TYPE_COLORS.get(artifact.type, "gray"))
    run.page_link(page_files.RUN, label=escaped(artifact.run_name), icon="", query_params={"id": artifact.run_id})
    model.text(base_model(artifact))
    version.markdown(escaped(artifact.metadata.get("drafter_version", MISSING)))
    accept.markdown(accept_length(artifact, artifact.accept_length) if artifact.type == "drafter" else MISSING)
    bytes_.text(size(artifact.bytes))
    made.text(ago(artifact.created_at, now))
    with link:
        download(artifact)
