"""What a configuration is going to cost: what its numbers say, and the time that a run like it took."""

from collections.abc import Sequence

import streamlit as st

from dashboard.analysis.run_config import trains_drafter_only
from dashboard.data.similar_runs import conditions, similar_run
from dashboard.text.escaping import escaped
from dashboard.text.formats import count, duration, short
from dashboard.views.new.schema_fields import Config


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
        whole = found.startup_seconds + found.step_seconds * algorithm["steps"]
        lines.append(f"about **{duration(whole)}** for {count(algorithm['steps'], 'step')},")
        began = f", and {duration(found.startup_seconds)} to begin" if found.startup_seconds else ""
        lines.append(f"since {escaped(short(found.run.name))} took {duration(found.step_seconds)} a step{began}")
    _show([pretraining, *lines] if pretraining else lines)


def _pretraining(config: Config) -> str:
    """Empty without."""
    minutes = config["drafter"]["pretrain_minutes"]
    found = ", unless there is a drafter already" if config["drafter"]["path"] == "auto" else ""
    return f"at most **{duration(60 * minutes)}** to train the drafter{found}" if minutes else ""


def _show(lines: Sequence[str]) -> None:
    with st.container(border=True, key="costs"):
        st.markdown("  \n".join(["**What it costs**", *lines]))
