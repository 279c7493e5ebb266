"""Where a drafter comes from."""

from typing import Any

import pytest
from example_runs import run

from backend.demo_data import telemetry
from dashboard.analysis.drafter_lineage import ancestors, drafter_version, origin
from engine.events import DrafterPretrained
from longtail.schemas.telemetry import DrafterSession, PretrainingRound

PRETRAINED = telemetry.config(True, algorithm={"steps": 0}, drafter={"path": None, "pretrain_minutes": 1})
ROUND = PretrainingRound.model_validate(next(event for event in telemetry.events(PRETRAINED) if isinstance(event, DrafterPretrained)))


def session(step: int, version: int, published: bool = True) -> DrafterSession:
    facts: dict[str, Any] = {"time": 0.0, "reason": "better", "microsteps": 1, "tokens": 1024, "loss": 1.0}
    return DrafterSession(step=step, drafter_version=version, published=published, held_out_before=0.5, held_out_after=0.6, **facts)


def test_each_version_comes_from_the_one_published_before() -> None:
    sessions = [session(0, 1), session(1, 1, published=False), session(2, 2), session(5, 4)]
    rows = [each.row() for each in ancestors(sessions, None)]
    assert [(row["Version"], row["From version"], row["After step"]) for row in rows] == [("4", "2", "5"), ("2", "1", "2"), ("1", "0", "0")]
    assert rows[0]["Held-out acceptance"] == "0.500 → 0.600"
    assert [each.session.drafter_version for each in ancestors(sessions, 2)] == [2, 1]
    assert ancestors(sessions[1:2], None) == []


def test_version_0_is_what_the_run_began_with() -> None:
    assert origin(run("a", telemetry.config(drafter={"path": "builtin"}))) == "builtin"
    assert origin(run("a", telemetry.config(drafter={"path": None}))) == "the last layer of its target"
    assert origin(run("a", {"name": "tracked", "drafter": "mine"})) == "the last layer of its target"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"drafter_id": "0123456789abcdef"}, "the drafter of artifact 0123456789abcdef"),
        ({"drafter_id": ""}, "the drafter that is built in for its target, or if there is none, the last layer of its target"),
        ({"drafter_id": "", "pretraining": ROUND}, "the last layer of its target"),
        (
            {"drafter_id": "", "pretraining": ROUND, "steps": 0},
            "the drafter that is built in for its target, or if there is none, the last",
        ),
        ({"drafter_id": None}, "not chosen yet"),
    ],
)
def test_what_auto_stands_for_is_told_by_what_it_found(changes: dict[str, Any], told: str) -> None:
    assert origin(run("a", telemetry.config(drafter={"path": "auto"})).model_copy(update=changes)).startswith(told)


def test_a_version_is_a_number_or_unknown() -> None:
    assert [drafter_version(told) for told in ({"drafter_version": "4"}, {"drafter_version": "<b>"}, {})] == [4, None, None]
