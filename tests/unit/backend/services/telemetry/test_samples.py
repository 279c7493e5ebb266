"""Samples of a run, and the drafter's sessions: what the engine told, as the API gives it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.database import Database
from backend.services.telemetry import step_rows
from backend.services.telemetry.event_ingest import rebuild
from engine.events import AnyEvent, DrafterTrained, EventWriter, Piece, RunStarted, Sample
from longtail import Longtail

TEXT, PIECES = "a <b>\N{GRINNING FACE}\0", [Piece("target", 1, 1), Piece("eagle", 3, 4), Piece("ngram", 1, 2)]


def told() -> Iterator[AnyEvent]:
    """Two samples a step; those of step 2 come from an engine that does not know what drafted them."""
    yield RunStarted(first_step=0, steps=3, workers=1, model_parameters=1, device="cpu", packages={})
    for step in range(3):
        for reward in (0.0, 1.0):
            yield Sample(step=step, prompt="?", response=TEXT, reward=reward, pieces=PIECES if step < 2 else None)
    session = DrafterTrained(
        step=0,
        drafter_version=1,
        published=True,
        reason="",
        microsteps=1,
        tokens=1,
        loss=0.5,
        held_out_before=0.4,
        held_out_after=0.5,
    )
    yield session
    yield session.model_copy(update={"step": 1, "top1_before": 0.6, "top1_after": 0.7, "top3_before": 0.8, "top3_after": float("nan")})


@pytest.fixture
def run_with_samples(database: Database, run_id: str, tmp_path: Path) -> str:
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    for event in told():
        writer.write(event)
    writer.close()
    rebuild(database, run_id, path)
    return run_id


def test_samples_tell_what_drafted_them(client: Longtail, run_with_samples: str) -> None:
    found = client.samples(run_with_samples)
    assert [(item.step, item.reward) for item in found] == [(step, reward) for step in range(3) for reward in (0.0, 1.0)]
    assert found[0].pieces == PIECES  # type: ignore[comparison-overlap]
    assert sum(piece.characters for piece in found[0].pieces or ()) == len(found[0].response)
    assert found[-1].pieces is None


def test_samples_are_chosen_by_outcome_text_prompt_and_length(client: Longtail, database: Database, run_id: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    facts = {"group_rewards": [0.0, 1.0], "advantage": 0.5}
    with EventWriter(path) as writer:
        writer.write(RunStarted(first_step=0, steps=3, workers=1, model_parameters=1, device="cpu", packages={}))
        writer.write(Sample(step=0, prompt="2 + 2", response="FOUR", reward=1.0, tokens=4, truncated=False, prompt_number=3, **facts))
        writer.write(Sample(step=1, prompt="2 + 3", response="four", reward=0.0, tokens=9, truncated=True))
        writer.write(Sample(step=2, prompt="2 + 2", response="five", reward=0.5, tokens=2, truncated=False))
    rebuild(database, run_id, path)

    def steps(**wanted: Any) -> list[int]:
        return [item.step for item in client.samples(run_id, **wanted)]

    assert (steps(outcome="right"), steps(outcome="wrong"), steps(outcome="truncated")) == ([0], [1, 2], [1])
    assert (steps(contains="four"), steps(contains="+ 3"), steps(contains="100%")) == ([0, 1], [1], [])
    assert (steps(prompt="2 + 2"), steps(prompt="2 +")) == ([0, 2], [])
    assert steps(longest=True, limit=2) == [0, 1]
    (first,) = client.samples(run_id, step=0)
    assert (first.prompt_number, first.group_rewards, first.advantage, first.is_right) == (3, [0.0, 1.0], 0.5, True)


def test_a_search_looks_through_the_latest_samples_and_through_all_of_a_step(
    client: Longtail, run_with_samples: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(**wanted: Any) -> list[int]:
        return [item.step for item in client.samples(run_with_samples, **wanted)]

    searches: list[dict[str, Any]] = [{"contains": "a <b>"}, {"prompt": "?"}, {"longest": True}]
    assert [steps(**wanted) for wanted in searches] == [[0, 0, 1, 1, 2, 2]] * 3
    monkeypatch.setattr(step_rows, "SEARCHED_SAMPLES", 3)
    assert [steps(**wanted) for wanted in searches] == [[1, 1, 2, 2]] * 3, "of whole steps"
    assert steps(outcome="right") == [1, 2]
    assert (steps(contains="a <b>", step=0), steps()) == ([0, 0], [0, 0, 1, 1, 2, 2])


def test_samples_of_one_step(client: Longtail, run_with_samples: str) -> None:
    assert [item.step for item in client.samples(run_with_samples, step=1)] == [1, 1]
    assert [(item.step, item.reward) for item in client.samples(run_with_samples, step=1, limit=1)] == [(1, 1.0)]
    assert client.samples(run_with_samples, step=9) == []


@pytest.mark.parametrize("step", [-1, 2**31, "x"])
def test_a_step_that_is_none_is_refused(api: TestClient, run_with_samples: str, step: object) -> None:
    reply = api.get(f"/api/v1/runs/{run_with_samples}/samples", params={"step": str(step)})
    assert (reply.status_code, reply.headers["content-type"]) == (422, "application/problem+json")


def test_sessions_tell_how_often_the_best_tokens_were_right(client: Longtail, run_with_samples: str) -> None:
    old, new = client.drafters(run_with_samples)
    assert (old.top1_before, old.top3_after) == (None, None)
    assert (new.top1_before, new.top1_after, new.top3_before, new.top3_after) == (0.6, 0.7, 0.8, None)
