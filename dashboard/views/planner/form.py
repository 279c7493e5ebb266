"""What is to be planned: a preset's or a run's configuration, changed in the fields that decide its costs, on some machines."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.auth.api_client import client, run_if_any
from dashboard.views.new.config_editor import Origin, origin_title, presets, recent_runs
from longtail.schemas.runs import Preset, Run

SMALL = ("tiny", "small")
MOST_GPUS, LONGEST, MOST = 8192, 10**7, 65_536


@dataclass(frozen=True)
class Wish:
    """``recorded``: a run whose lengths and times are taken."""

    config: dict[str, Any]
    gpus: str
    price: float | None
    recorded: Run | None
    deadline: float | None


@st.cache_data(ttl=60, show_spinner=False)
def gpu_kinds() -> tuple[str, ...]:
    return tuple(kind.name for kind in client().gpu_kinds())


def origin() -> Origin:
    """Draws the choice of what to plan, which the address may name."""
    known: dict[str, Origin] = {preset.name: preset for preset in presets()} | {run.id: run for run in recent_runs()}
    asked = st.query_params.get("from")
    if asked and asked not in known and (run := run_if_any(asked)) is not None and run.kind == "engine":
        known[asked] = run
    names = list(known)
    first = names.index(asked) if asked in known else 0
    name = st.selectbox("Plan a preset, or a run", names, first, format_func=lambda name: origin_title(known[name]), width=420)
    st.query_params["from"] = name
    return known[name]


def form(chosen: Origin) -> Wish | None:
    """Draws the form; what is wished once it is sent, else None."""
    name = chosen.name if isinstance(chosen, Preset) else chosen.id
    config: dict[str, Any] = {**chosen.config}
    kinds = gpu_kinds()
    usual = kinds.index("cpu" if config["model"]["path"] in SMALL else "h100")  # not by what is typed, or the choice would be made anew
    algorithm, rollout, model = ({**config[section]} for section in ("algorithm", "rollout", "model"))
    with st.form(f"plan-{name}", enter_to_submit=False):
        left, middle, right = st.columns(3, gap="medium")
        with left:
            model["path"] = st.text_input("Model", model["path"], help="A model's name or folder, or a size: 0.5B, 7B, 8B, 32B, 70B")
            kind = st.selectbox("GPUs", kinds, usual)
            count = st.number_input("How many", 1, MOST_GPUS, config["cluster"]["workers"])
        with middle:
            algorithm["steps"] = st.number_input("Steps", 1, 1_000_000, max(1, algorithm["steps"]))
            algorithm["prompts_per_step"] = st.number_input("Prompts a step", 1, MOST, algorithm["prompts_per_step"])
            rollout["max_new_tokens"] = st.number_input("Longest response in tokens", 1, LONGEST, rollout["max_new_tokens"])
        with right:
            price = st.number_input("Dollars for a GPU-hour", 0.0, value=None, placeholder="by the list")
            deadline = st.number_input("Deadline in hours", 0.01, value=None, placeholder="none")
            recorded = isinstance(chosen, Run) and chosen.step > 0
            taken = st.toggle("As this run was measured", recorded, disabled=not recorded, help="Its lengths, acceptance and times")
        sent = st.form_submit_button("Plan", type="primary")
    config |= {"algorithm": algorithm, "rollout": rollout, "model": model}
    run = chosen if isinstance(chosen, Run) and taken else None
    return Wish(config, f"{kind}:{count}", price, run, deadline) if sent else None
