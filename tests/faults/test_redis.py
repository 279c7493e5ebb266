"""The same platform with Redis for a broker: it makes runs start sooner, and nothing depends on it."""

import time

import httpx
import pytest
from arena import PATIENT, Arena
from history import check
from redis import Redis

from backend.jobs.engine.processes import start_time

pytestmark = pytest.mark.parametrize("arena", ["redis"], indirect=True)
DEAF = "600"
"""Seconds between a worker's own looks for runs: within a test, it goes by messages only."""


def finish(arena: Arena) -> None:
    arena.settle()
    for run_id in arena.accepted:
        check(arena.database, arena.settings, run_id)
    assert arena.engines() == []


def ready(arena: Arena) -> list[str]:
    """The names of what is not."""
    reply = httpx.get(f"{arena.client.base_url}/readyz", timeout=60, trust_env=False)
    return [error["field"] for error in reply.json().get("errors", [])]


def test_a_message_is_heard_at_once(arena: Arena) -> None:
    arena.start_api()
    arena.start_worker(**PATIENT, LONGTAIL_SWEEP_SECONDS=DEAF)
    first = arena.submit()
    arena.until(lambda: arena.state(first) == "succeeded")
    second = arena.submit(steps=1)
    arena.until(lambda: arena.state(second) == "succeeded")
    finish(arena)


def test_workers_share_the_runs_and_needless_messages_are_no_harm(arena: Arena) -> None:
    arena.start_api()
    for _ in range(3):
        arena.start_worker(**PATIENT)
    for _ in range(6):
        arena.submit()
    arena.send_needless_messages()
    finish(arena)
    assert all(arena.attempts(run_id) == ["succeeded"] for run_id in arena.accepted)


def test_without_redis_runs_go_on_and_start_and_readiness_says_so(arena: Arena) -> None:
    assert arena.redis
    arena.start_api()
    arena.start_worker(**PATIENT, FAULT_STEP_SECONDS="0.1")
    first = arena.submit(steps=20)
    arena.until(lambda: arena.state(first) == "running")
    arena.redis.kill()
    arena.start_worker(**PATIENT)  # refuses to start, and is no harm
    second = arena.submit()
    arena.until(lambda: ready(arena) == ["broker"])
    arena.until(lambda: arena.state(second) == "succeeded")
    assert arena.attempts(first) == ["succeeded"]
    arena.redis.start()
    arena.until(lambda: ready(arena) == [])
    finish(arena)


def test_when_redis_is_back_empty_messages_are_heard_again(arena: Arena) -> None:
    assert arena.redis
    arena.start_api()
    arena.start_worker(**PATIENT, LONGTAIL_SWEEP_SECONDS=DEAF)
    first = arena.submit()
    arena.until(lambda: arena.state(first) == "succeeded")
    arena.redis.kill()
    lost = arena.submit()
    time.sleep(2)
    arena.redis.start()
    later = arena.submit()
    arena.until(lambda: arena.state(later) == "succeeded")
    finish(arena)
    assert arena.attempts(lost) == ["succeeded"], "whoever looks takes every run"


def test_a_message_that_nobody_can_read_is_no_harm(arena: Arena) -> None:
    assert arena.redis
    arena.start_api()
    worker = arena.start_worker(**PATIENT)
    first = arena.submit()
    arena.until(lambda: arena.state(first) == "succeeded")
    with Redis.from_url(arena.redis.url) as redis:
        redis.lpush("longtail", "{half")
    second = arena.submit()
    arena.until(lambda: arena.state(second) == "succeeded")
    assert start_time(worker) is not None
    finish(arena)
