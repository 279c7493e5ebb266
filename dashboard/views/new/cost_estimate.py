"""What a configuration is going to cost: what its numbers say, and the time that a run like it took."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.analysis.run_config import trains_drafter_only
from dashboard.auth.api_client import client
from dashboard.text.escaping import escaped
from dashboard.text.formats import count, duration, short
from dashboard.views.new.schema_fields import Config
from longtail.schemas.runs import Run

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


def cost_estimate(config: Config) -> None:
    """``config`` has every field."""
    pretraining = _pretraining(config)
    if trains_drafter_only(config):
        _show([pretraining])
        return
    algorithm, limit = config["algorithm"], config["rollout"]["max_new_tokens"]
    responses = algorithm["prompts_per_step"] * algorithm["group_size"]
    lines = [f"**{count(responses, 'response')} a step**, {responses * limit:,} tokens at most"]
    evaluation = config["evaluation"]
    if evaluation["every"]:
        lines.append(f"and {evaluation['prompts'] * evaluation['samples']:,} at most in each evaluation")
    found = similar_run(conditions(config))
    if found is None:
        lines.append("How long it takes is not known: no finished run is like it.")
    else:
        run, seconds = found
        lines.append(f"about **{duration(seconds * algorithm['steps'])}** for {count(algorithm['steps'], 'step')},")
        lines.append(f"since {escaped(short(run.name))} took {duration(seconds)} a step")
    _show([pretraining, *lines] if pretraining else lines)


def _pretraining(config: Config) -> str:
    """Empty without."""
    minutes = config["drafter"]["pretrain_minutes"]
    found = ", unless there is a drafter already" if config["drafter"]["path"] == "auto" else ""
    return f"at most **{duration(60 * minutes)}** to train the drafter{found}" if minutes else ""


def _show(lines: Sequence[str]) -> None:
    with st.container(border=True, key="costs"):
        st.markdown("  \n".join(["**What it costs**", *lines]))


def conditions(config: Config) -> tuple[str, ...]:
    """That a run is like ``config``."""
    return tuple(f"config.{path}={_text(config, path)}" for path in SIMILAR_IN)


@st.cache_data(ttl=60, scope="session", show_spinner=False)
def similar_run(where: tuple[str, ...]) -> tuple[Run, float] | None:
    """The newest finished run that meets the conditions, and its seconds a step."""
    for run in client().runs("succeeded", limit=1, where=where).items:
        for glance in client().glances([run.id]):
            if glance.step_seconds is not None:
                return run, glance.step_seconds
    return None


def _text(config: Mapping[str, Any], path: str) -> str:
    value: Any = config
    for part in path.split("."):
        value = value[part]
    return (value if isinstance(value, str) else json.dumps(value))[:LONGEST]
