"""Artifacts to take away: the newest version of each name, and those before it."""

from collections.abc import Sequence
from itertools import groupby

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.text.escaping import escaped
from dashboard.text.formats import count, size, words
from longtail.schemas.artifacts import Artifact


def artifact_downloads(artifacts: Sequence[Artifact]) -> None:
    """A row for each name, with its newest version; the older ones stay closed."""
    ordered = sorted(artifacts, key=lambda artifact: (artifact.name, -artifact.version))
    for name, group in groupby(ordered, lambda artifact: artifact.name):
        newest, *older = group
        _row(newest)
        if older:
            with st.expander(f"{count(len(older), 'older version')} of {escaped(name)}"):
                for artifact in older:
                    _row(artifact)


def _row(artifact: Artifact) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{escaped(artifact.name)}**, version {artifact.version}  \n"
            f"{escaped(artifact.type)}, {size(artifact.bytes)}, {artifact.created_at:%Y-%m-%d %H:%M:%S} UTC",
            width="content",
        )
        details = ", ".join(f"{words(key)} {value}" for key, value in artifact.metadata.items())
        st.caption(f"{escaped(details)}  \nsha256 `{artifact.sha256}`", width="stretch")
        if artifact.missing:
            st.badge("content lost", color="red")
        else:
            st.link_button("Download", client().artifact_url(artifact.id))
