"""Artifacts of all runs: found, filtered, paged, and only those in sight."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from sqlalchemy import update

from backend.database import Database
from backend.models import Artifact, Run
from longtail import Longtail

LIST = "/api/v1/artifacts"


@pytest.fixture
def run(api: TestClient, config: dict[str, Any]) -> str:
    return str(api.post("/api/v1/runs", json={"config": config | {"name": "The 50% run"}}).json()["id"])


def keep(database: Database, run_id: str, name: str, created_at: float, **facts: Any) -> str:
    """Writes the row of an artifact; its id."""
    with database.write() as session:
        digest = facts.pop("sha256", "0" * 64)
        artifact = Artifact(run_id=run_id, name=name, created_at=created_at, bytes=3, sha256=digest, **{"type": "drafter", **facts})
        session.add(artifact)
        session.flush()
        return artifact.id


def names(client: TestClient, **query: Any) -> list[str]:
    reply = client.get(LIST, params=query)
    assert reply.status_code == 200, reply.text
    return [item["name"] for item in reply.json()["items"]]


def test_it_says_where_each_comes_from(api: TestClient, database: Database, run: str) -> None:
    keep(database, run, "drafter.zip", 1.0, details={"base_model": "tiny"})
    keep(database, run, "policy.zip", 2.0, type="policy")
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run).values(summary={"accept_length": 2.5}))
    policy, drafter = api.get(LIST).json()["items"]
    assert (drafter["run_id"], drafter["run_name"], drafter["accept_length"]) == (run, "The 50% run", 2.5)
    assert (drafter["version"], drafter["metadata"], policy["accept_length"]) == (1, {"base_model": "tiny"}, None)


def test_pages_come_newest_first_and_miss_nothing(api: TestClient, database: Database, run: str) -> None:
    for number in range(5):
        keep(database, run, f"{number}", float(number // 2))
    seen, cursor = [], None
    while True:
        page = api.get(LIST, params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == ["0", "1", "2", "3", "4"]
    assert seen[0] == "4"


def test_search_and_filter(api: TestClient, database: Database, run: str) -> None:
    keep(database, run, "drafter.zip", 3.0, details={"base_model": "/models/Qwen"}, sha256="ab" * 32)
    keep(database, run, "policy.zip", 2.0, type="policy")
    keep(database, run, "notes.txt", 1.0, type="file")
    assert names(api, type=["policy", "file"]) == ["policy.zip", "notes.txt"]
    assert names(api, q="QWEN") == names(api, q="abab") == names(api, q="drafter") == ["drafter.zip"]
    assert len(names(api, q="50%")) == len(names(api, q=run[:6])) == len(names(api, run=run)) == 3
    assert names(api, q="5_%") == names(api, q="baba") == names(api, run="0" * 16) == []


@pytest.mark.parametrize("query", [{"type": "pickle"}, {"q": "\0"}, {"run": "x"}, {"limit": 0}, {"cursor": "AAAA"}])
def test_it_has_its_bounds(api: TestClient, query: dict[str, Any]) -> None:
    assert api.get(LIST, params=query).status_code == 422


def test_nobody_sees_those_of_others_or_of_deleted_runs(
    api: TestClient, anonymous: TestClient, database: Database, run: str, config: dict[str, Any], new_token: NewToken
) -> None:
    place = api.post("/api/v1/projects", json={"name": "secret"}).json()["id"]
    hidden = api.post("/api/v1/runs", json={"config": config, "project_id": place}).json()["id"]
    keep(database, run, "open", 1.0)
    keep(database, hidden, "secret", 2.0)
    assert (names(api), names(api, project=place)) == (["secret", "open"], ["secret"])
    stranger = TestClient(anonymous.app, base_url="http://localhost", headers={"Authorization": f"Bearer {new_token('editor', 'eve')}"})
    assert (names(stranger), names(stranger, run=hidden), stranger.get(LIST, params={"project": place}).status_code) == (["open"], [], 404)
    api.patch(f"/api/v1/projects/{place}", json={"archived": True})
    assert (names(api), names(api, project=place)) == (["open"], ["secret"])
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run).values(deleted_at=5.0))
    assert names(api) == []


def test_the_client_asks_for_them(client: Longtail, database: Database, run_id: str) -> None:
    keep(database, run_id, "drafter.zip", 1.0)
    assert [artifact.run_name for artifact in client.all_artifacts(["drafter"], "drafter", run=run_id).items] == ["first"]
    assert client.all_artifacts(["policy"]).items == []
