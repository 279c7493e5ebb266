"""The schema of a configuration, as this version has it, and what older runs' configurations mean by it."""

from collections.abc import Iterable, Mapping
from typing import Any

import streamlit as st

from dashboard.analysis.config_schema import whole_config
from dashboard.auth.api_client import client
from longtail.schemas.comparison import Comparison
from longtail.schemas.runs import Run


@st.cache_resource(ttl=60, show_spinner=False)
def config_schema() -> Mapping[str, Any]:
    return client().schema()


def whole_runs(runs: Iterable[Run]) -> list[Run]:
    """Also with the settings that came after a run, at their defaults. What a script says stays as it is."""
    schema = config_schema()
    return [run if run.kind == "tracked" else run.model_copy(update={"config": whole_config(schema, run.config)}) for run in runs]


def whole_comparison(comparison: Comparison) -> Comparison:
    runs = whole_runs(item.run for item in comparison.items)
    items = [item.model_copy(update={"run": run}) for item, run in zip(comparison.items, runs, strict=True)]
    return comparison.model_copy(update={"items": items})
