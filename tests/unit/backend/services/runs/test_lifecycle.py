from itertools import product
from typing import get_args

import pytest
from sqlalchemy import update

from backend.database import Database
from backend.models import Run
from backend.services.runs.lifecycle import transition
from longtail.schemas.runs import TERMINAL_STATES, RunState

STATES: tuple[RunState, ...] = get_args(RunState)
LEGAL = {
    ("queued", "starting"),
    ("queued", "paused"),
    ("queued", "cancelled"),
    ("paused", "queued"),
    ("paused", "cancelled"),
    ("starting", "paused"),
    ("running", "paused"),
    ("starting", "queued"),
    ("starting", "running"),
    ("starting", "failed"),
    ("starting", "cancelled"),
    ("running", "queued"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
}


def set_state(database: Database, run_id: str, state: RunState) -> None:
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run_id).values(state=state))


def state_of(database: Database, run_id: str) -> str:
    with database.read() as session:
        return session.get_one(Run, run_id).state


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_only_legal_transitions_happen(database: Database, run_id: str, before: RunState, after: RunState) -> None:
    set_state(database, run_id, before)
    with database.write() as session:
        moved = transition(session, run_id, after)
    assert moved == ((before, after) in LEGAL)
    assert state_of(database, run_id) == (after if moved else before)


def test_terminal_states_are_final() -> None:
    assert {before for before, _ in LEGAL} & TERMINAL_STATES == set()


def test_an_older_attempt_is_fenced_off(database: Database, run_id: str) -> None:
    with database.write() as session:
        assert transition(session, run_id, "starting", attempt=2)
        assert not transition(session, run_id, "running", fence=1)
        assert transition(session, run_id, "running", fence=2)


def test_the_end_is_dated(database: Database, run_id: str) -> None:
    with database.write() as session:
        transition(session, run_id, "cancelled")
    with database.read() as session:
        assert session.get_one(Run, run_id).finished_at is not None
