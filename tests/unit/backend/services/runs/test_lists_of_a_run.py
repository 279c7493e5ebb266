"""What grows with a run, or with the number of users, comes in pages or parts, which the client puts together."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert

from backend.database import Database
from backend.models import Artifact, Attempt, Base, Membership, PretrainingRound, User
from longtail import Longtail
from longtail.schemas.projects import DEFAULT_PROJECT

MANY = 1001
ROUND = {"time": 0.0, "seconds": 1.0, "limit": 9.0, "end": 9.0, "done": False, "responses": 1, "response_tokens": 1}
ROUND |= {"microsteps": 1, "tokens": 1, "vocabulary": 9, "drafter_version": 1}


def fill(database: Database, model: type[Base], rows: list[dict[str, Any]]) -> None:
    with database.write() as session:
        session.execute(insert(model), rows)


@pytest.fixture
def crowded(database: Database, run_id: str) -> str:
    """A run with many of everything, in a project with many members."""
    fill(database, Attempt, [{"run_id": run_id, "number": number, "worker_id": "0" * 16} for number in range(1, MANY + 1)])
    fill(database, PretrainingRound, [ROUND | {"run_id": run_id, "round": number} for number in range(1, MANY + 1)])
    file = {"run_id": run_id, "type": "file", "bytes": 1, "sha256": "0" * 64}
    fill(database, Artifact, [file | {"name": f"{number}", "created_at": float(number // 3)} for number in range(MANY)])
    fill(database, User, [{"id": f"{number:016x}", "name": f"user-{number:04}", "role": "viewer"} for number in range(MANY)])
    member = {"project_id": DEFAULT_PROJECT, "role": "viewer"}
    fill(database, Membership, [member | {"user_id": f"{number:016x}"} for number in range(MANY)])
    return run_id


LISTS = {
    "attempts": (50, "next_cursor", "cursor", "number"),
    "artifacts": (50, "next_cursor", "cursor", "name"),
    "members": (50, "next_cursor", "cursor", "user"),
    "pretraining": (1000, "next_since_round", "since_round", "round"),
}
"""How many there are on a page, what asks for the next one, and what an item is known by."""


def test_no_answer_has_all_of_many(api: TestClient, crowded: str) -> None:
    for name, (most, said, sent, known) in LISTS.items():
        path = f"/api/v1/projects/{DEFAULT_PROJECT}/members" if name == "members" else f"/api/v1/runs/{crowded}/{name}"
        first = api.get(path).json()
        assert len(first["items"]) == most, name
        second = api.get(path, params={sent: first[said]}).json()
        assert second["items"], name
        assert not {item[known] for item in first["items"]} & {item[known] for item in second["items"]}, name


def test_the_client_puts_them_together(client: Longtail, crowded: str) -> None:
    assert [attempt.number for attempt in client.attempts(crowded)] == list(range(1, MANY + 1))
    assert [each.round for each in client.pretraining(crowded)] == list(range(1, MANY + 1))
    assert [each.round for each in client.pretraining(crowded, 5, 500)] == [500, 1000]
    files = client.artifacts(crowded)
    assert sorted(int(file.name) for file in files) == list(range(MANY))
    assert [file.created_at for file in files] == sorted(file.created_at for file in files)
    assert [each.user for each in client.members(DEFAULT_PROJECT)][-MANY:] == [f"user-{number:04}" for number in range(MANY)]
