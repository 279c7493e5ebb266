"""Runs like a configuration, by which to tell how long it is going to take."""

import json
from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.analysis.start_of_run import SimilarRun
from dashboard.auth.api_client import client

LONGEST = 200
SIMILAR_IN = (
    "model.path",
    "task.name",
    "rollout.engine",
    "rollout.max_new_tokens",
    "algorithm.prompts_per_step",
    "algorithm.group_size",
    "cluster.workers",
    "speculation.enabled",
)
"""What a step's time depends on most, as far as it can be asked for at once."""


def conditions(config: Mapping[str, Any]) -> tuple[str, ...]:
    """That a run is like ``config``."""
    return tuple(f"config.{path}={_text(config, path)}" for path in SIMILAR_IN)


@st.cache_data(ttl=60, scope="session", show_spinner=False)
def similar_run(where: tuple[str, ...]) -> SimilarRun | None:
    """The newest finished run that meets the conditions."""
    for run in client().runs("succeeded", limit=1, where=where).items:
        found = client().statistics(run.id)
        if found.step_seconds is not None:
            return SimilarRun(run, found.step_seconds, found.startup_seconds)
    return None


def _text(config: Mapping[str, Any], path: str) -> str:
    value: Any = config
    for part in path.split("."):
        value = value[part]
    return (value if isinstance(value, str) else json.dumps(value))[:LONGEST]
