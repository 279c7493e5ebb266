"""Which runs are compared. The address of the page holds the choice."""

import re
from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.analysis.comparability import MOST_COMPARED
from dashboard.auth.api_client import client, run_if_any
from dashboard.text.escaping import escaped
from dashboard.text.formats import short
from dashboard.text.run_labels import run_labels
from longtail.schemas.runs import Run

OFFERED = 100
ID = re.compile("[0-9a-f]{16}")
state = st.session_state


def chosen_runs() -> list[Run]:
    """The chosen runs, the baseline first; the address (``?runs=baseline,other``) follows the choice, and the choice the address."""
    address = st.query_params.get("runs", "")
    wanted = list(dict.fromkeys(run_id for run_id in address.split(",") if run_id))
    if "chosen" not in state or state.get("compared") != address:
        state["chosen"] = wanted[:MOST_COMPARED]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        query = st.text_input("Find", type="search", max_chars=200, placeholder="name, notes or id", key="find", live=True, width=220)
        offers = _offers(query, dict.fromkeys([*wanted[:MOST_COMPARED], *state["chosen"]]))
        if not offers.keys() >= set(state["chosen"]):
            state["chosen"] = [run_id for run_id in state["chosen"] if run_id in offers]
        names = run_labels(list(offers.values()))
        chosen = st.multiselect(
            "Runs; the first is the baseline",
            list(offers),
            format_func=names.__getitem__,
            key="chosen",
            max_selections=MOST_COMPARED,
            placeholder="Choose two runs or more",
            width="stretch",
        )
    _explain(wanted, offers)
    state["compared"] = ",".join(chosen)
    if chosen:
        st.query_params["runs"] = state["compared"]
    else:
        st.query_params.pop("runs", None)
    return [offers[run_id] for run_id in chosen]


def to_choose(chosen: Sequence[Run]) -> str:
    """As Markdown, what is missing where fewer than two runs are chosen."""
    what = f"Add a run to compare {escaped(chosen[0].name)} with. The first one" if chosen else "Choose two runs or more. The first"
    return f"{what} is the baseline that the others are measured by."


def _explain(wanted: Sequence[str], offers: Mapping[str, Run]) -> None:
    """What of the address is left out."""
    unknown = [escaped(short(run_id)) for run_id in wanted[:MOST_COMPARED] if run_id not in offers]
    if unknown:
        st.warning(f"Left out, as there is no such run in your sight: {', '.join(unknown)}", icon="⚠️")
    if len(wanted) > MOST_COMPARED:
        st.warning(f"The address names {len(wanted)} runs: these are the first {MOST_COMPARED}, which is the most.", icon="⚠️")


def _offers(query: str, wanted: Mapping[str, object]) -> dict[str, Run]:
    """The chosen runs, as far as they are there, and the newest that match, by id."""
    found = {run.id: run for run in client().runs(q=query or None, limit=OFFERED).items}
    missing = [run_id for run_id in wanted if run_id not in found and ID.fullmatch(run_id)]
    at_hand = found | ({run.id: run for run in client().runs(run=missing, limit=MOST_COMPARED).items} if missing else {})
    return {run_id: run for run_id in wanted if (run := at_hand.get(run_id) or run_if_any(run_id)) is not None} | found
