"""What can be done with the selected runs. Each action does what it can, and says what was refused."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from dashboard import page_files
from dashboard.analysis.comparability import MOST_COMPARED
from dashboard.analysis.run_config import speculates
from dashboard.auth.api_client import client, me
from dashboard.text.escaping import escaped
from dashboard.text.formats import count
from dashboard.views.runs.grouped_runs import GROUPED
from dashboard.views.runs.navigation import go
from dashboard.views.runs.selection import SELECTED
from dashboard.views.runs.state_totals import totals
from longtail import ApiError, Longtail
from longtail.schemas.runs import Action, Run

LONGEST_TAG = 64
ASKED = "asked"
"""Key of the session: what a button was pressed for, and the runs that it spoke of."""
state = st.session_state


@dataclass(frozen=True)
class BulkAction:
    """``done``: what is said of it afterwards, before the number of runs. ``undo``: what takes it back."""

    done: str
    act: Callable[[Longtail, Run], object]
    undo: "BulkAction | None" = None


@dataclass(frozen=True)
class BulkResult:
    """``changed``: the runs to which it was done."""

    action: BulkAction
    changed: Sequence[Run]
    refused: Sequence[str] = ()


PAUSE = BulkAction("Paused", lambda api, run: api.pause(run.id))
RESUME = BulkAction("Resumed", lambda api, run: api.resume(run.id))
CANCEL = BulkAction("Cancelled", lambda api, run: api.cancel(run.id))
RESTORE = BulkAction("Restored", lambda api, run: api.restore(run.id))
DELETE = BulkAction("Deleted", lambda api, run: api.delete(run.id), RESTORE)


def apply_to_all(action: BulkAction, runs: Sequence[Run]) -> None:
    """Does it to each of the runs, whatever was refused of the others."""
    refused: dict[str, str] = {}
    for run in runs:
        try:
            action.act(client(), run)
        except ApiError as error:
            refused[run.id] = f"{run.name}: {error}"
    changed = [run for run in runs if run.id not in refused]
    state["outcome"] = BulkResult(action, changed, [*refused.values()])
    state.pop("to cancel", None)
    state.pop(GROUPED, None)
    totals.clear()  # runs that the list does not show may have changed


def ask(action: BulkAction, runs: Sequence[Run]) -> None:
    """For the callback of a button: see ``carry_out``."""
    state[ASKED] = action, runs


def carry_out() -> None:
    """What a button was pressed for, once the page has heard all that was clicked: of a run that was deselected a moment before, the
    button may still have spoken. Before any page is drawn or left, so that it is done now or not at all."""
    if asked := state.pop(ASKED, None):
        action, runs = asked
        if still := [run for run in runs if run.id in state.get(SELECTED, ())]:
            apply_to_all(action, still)


def action_bar(runs: Sequence[Run], deleted: bool) -> None:
    """The buttons, on the left, since the grid's own appear on the right; a viewer has those that change nothing."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if not deleted:
            _look(runs)
        if deleted and me().may_write:
            _button("Restore", RESTORE, runs)
        elif me().may_write:
            _change(runs)
        st.markdown(f"**{_count(runs)}** selected" if runs else ":gray[Select runs to open, compare or change them]", width="content")


def _look(runs: Sequence[Run]) -> None:
    one = runs[0].id if len(runs) == 1 else ""
    st.button("Open run", disabled=not one, on_click=go, args=(page_files.RUN, "id", one))
    ordered = sorted(runs, key=lambda run: (speculates(run.config), run.created_at))  # a plain run is the baseline
    several = 2 <= len(runs) <= MOST_COMPARED
    compared = (page_files.COMPARE, "runs", ",".join(run.id for run in ordered))
    st.button(_label("Compare", runs), disabled=not several, type="primary" if several else "secondary", on_click=go, args=compared)


def _change(runs: Sequence[Run]) -> None:
    one = runs[0].id if len(runs) == 1 and runs[0].kind == "engine" else ""
    help = "Opens the form with this run's configuration."
    st.button("Clone", disabled=not one, help=help, on_click=go, args=(page_files.NEW_RUN, "from", one))
    _button("Pause", PAUSE, _able(runs, "pause"))
    _button("Resume", RESUME, _able(runs, "resume"))
    able = _able(runs, "cancel")
    st.button(_label("Cancel", able), disabled=not able, on_click=state.update, args=({"to cancel": able},))
    with st.popover("Tag", key="tagging", disabled=not runs):
        _tag(runs)
    _button("Delete", DELETE, _able(runs, "delete"))


def _tag(runs: Sequence[Run]) -> None:
    tag = st.text_input("Tag", key="new-tag", max_chars=LONGEST_TAG, live=True).strip()

    def add(api: Longtail, run: Run) -> None:
        api.change_run(run.id, run.revision, tags=[*dict.fromkeys([*run.tags, tag])])

    def remove(api: Longtail, run: Run) -> None:
        api.change_run(run.id, run.revision, tags=[each for each in run.tags if each != tag])

    with st.container(horizontal=True):
        st.button("Add", type="primary", disabled=not tag, on_click=ask, args=(BulkAction("Tagged", add), runs))
        tagged = [run for run in runs if tag in run.tags]
        st.button(_label("Remove", tagged), disabled=not tagged, on_click=ask, args=(BulkAction("Took the tag from", remove), tagged))


def confirmation_and_outcome() -> None:
    """What there is to confirm, and what came of the last action."""
    if runs := state.get("to cancel"):
        with st.container(border=True, horizontal=True, vertical_alignment="center", key="confirm"):
            st.markdown(cancel_question(runs), width="stretch")
            st.button("Keep running", on_click=state.pop, args=("to cancel", None))
            st.button(f"Cancel {_count(runs)}", type="primary", on_click=apply_to_all, args=(CANCEL, runs))
    outcome: BulkResult | None = state.get("outcome")
    if outcome is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="outcome"):
        st.markdown(f":green[**{escaped(f'{outcome.action.done} {_count(outcome.changed)}')}**]", width="content")
        if outcome.action.undo and outcome.changed:
            st.button("Undo", on_click=apply_to_all, args=(outcome.action.undo, outcome.changed))
        st.button("Dismiss", type="tertiary", on_click=state.pop, args=("outcome", None))
    if outcome.refused:
        st.error("\n".join(f"- {escaped(each)}" for each in outcome.refused))


def cancel_question(runs: Sequence[Run]) -> str:
    """As Markdown."""
    stop = (
        "It stops within seconds; what it has written stays."
        if len(runs) == 1
        else "They stop within seconds; what they have written stays."
    )
    return f"**Cancel {_named(runs)}?** {stop}"


def _able(runs: Sequence[Run], action: Action) -> list[Run]:
    return [run for run in runs if action in run.actions]


def _button(label: str, action: BulkAction, runs: Sequence[Run]) -> None:
    st.button(_label(label, runs), disabled=not runs, on_click=ask, args=(action, runs), key=label)


def _label(label: str, runs: Sequence[Run]) -> str:
    return f"{label} {len(runs)}" if runs else label


def _count(runs: Sequence[Run]) -> str:
    return count(len(runs), "run")


def _named(runs: Sequence[Run]) -> str:
    """The first three by name."""
    names = ", ".join(escaped(run.name) for run in runs[:3])
    return f"{names} and {len(runs) - 3} more" if len(runs) > 3 else names
