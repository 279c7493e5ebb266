"""Whether workers are told of what was queued, and that nobody waits for a broker."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.settings import Settings

SECONDS = 60.0


@pytest.fixture
def serving(api: TestClient) -> Iterator[TestClient]:
    """With the threads of an API process."""
    with api:
        yield api


def queues(settings: Settings, count: int) -> list[str]:
    """Where messages lie, as soon as there are ``count``."""
    deadline = time.monotonic() + SECONDS
    while True:
        found = [path.name.partition(".")[2] for path in sorted((settings.broker_folder / "queue").iterdir())]
        if len(found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def submit(api: TestClient, config: dict[str, Any], **wishes: Any) -> str:
    reply = api.post("/api/v1/runs", json={"config": config, **wishes})
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


def test_workers_are_told_of_a_queued_run(serving: TestClient, settings: Settings, config: dict[str, Any]) -> None:
    run_id = submit(serving, config)
    assert queues(settings, 1) == ["longtail.msg"]
    submit(serving, config, needs="gpu:h200")
    assert sorted(queues(settings, 2)) == ["longtail.gpu:h200.msg", "longtail.msg"]
    serving.post(f"/api/v1/runs/{run_id}/pause")
    serving.post(f"/api/v1/runs/{run_id}/resume")
    assert len(queues(settings, 3)) == 3


def test_nobody_is_told_of_a_run_that_no_worker_carries(serving: TestClient, settings: Settings, config: dict[str, Any]) -> None:
    assert serving.post("/api/v1/runs/tracked", json={"name": "tracked"}).status_code == 201
    submit(serving, config)
    assert queues(settings, 1) == ["longtail.msg"]


def test_a_broker_that_is_away_holds_nobody_up(serving: TestClient, settings: Settings, config: dict[str, Any]) -> None:
    folder = settings.broker_folder / "queue"
    folder.rename(aside := Path(f"{folder}.aside"))
    submit(serving, config)
    serving.app.state.notifier.nudge()  # type: ignore[attr-defined]
    aside.rename(folder)
    submit(serving, config)
    assert "longtail.msg" in queues(settings, 1)
