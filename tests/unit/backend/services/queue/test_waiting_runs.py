"""The order that people are shown is the one in which workers take runs, and every run that waits says why."""

import time
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from new_token import NewToken
from queue_cases import queue, take, take_all

from backend.database import Database
from backend.models import Worker
from backend.services.queue.scheduling import QueueLimits, Room, Slots
from backend.services.queue.waiting_runs import Capacity, OwnerUsage, Queued, ordered, positions
from longtail import Longtail

HOUR = 3600.0
NOW = 1_000_000.0


def waiting(name: str, ago: float = 0.0, **changes: Any) -> Queued:
    usual: dict[str, Any] = {"owner": "", "priority": 0, "needs": "", "queued_at": NOW - ago, "start_after": None}
    usual |= {"gpus": 0, "gpu_only": False}
    return Queued(name, name, "p", **usual | changes)


def room(*labels: str, total: int = 1, free: int = 1, gpus: int = 0) -> Room:
    return Room(frozenset({"", *labels}), Slots(total, free), tuple(f"host/{number}" for number in range(gpus)))


def reasons(runs: list[Queued], room: Capacity) -> dict[str, tuple[int | None, str]]:
    return {run.run_id: (place, reason) for run, place, reason in positions(runs, room, NOW)}


def offer(database: Database, *labels: str, slots: int = 1, seen_ago: float = 0.0) -> None:
    with database.write() as session:
        session.add(Worker(host="<b>here</b>", pid=1, pid_started=1, labels=list(labels), slots=slots, seen_at=time.time() - seen_ago))


def test_the_order_is_the_one_in_which_workers_take_them(database: Database, client: Longtail) -> None:
    offer(database, "cpu")
    for name, ago, wishes in (
        ("patient", 11 * HOUR, {"priority": -5, "owner": "anna"}),
        ("urgent", 0, {"priority": 5, "owner": "bert"}),
        ("second", 1, {"priority": 5, "owner": "bert"}),
        ("modest", 7 * HOUR, {"owner": "carl"}),
        ("last", 60, {"owner": "anna"}),
        ("nobody's", 30, {}),
        ("young", 1, {"owner": "carl"}),
    ):
        queue(database, name, ago, **wishes)
    assert take(database) == "modest", "so that one owner has been served"
    shown = [(item.run_name, item.place) for item in client.queue().items]
    assert [place for _, place in shown] == [1, 2, 3, 4, 5, 6]
    assert [name for name, _ in shown] == take_all(database)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 3), st.integers(0, 5)), max_size=12))
def test_each_stands_once_and_an_owner_s_own_go_by_priority_and_age(wishes: list[tuple[str, int, int]]) -> None:
    runs = [waiting(f"{number:02}", hours * HOUR, owner=owner, priority=high) for number, (owner, high, hours) in enumerate(wishes)]
    order = ordered(runs, {"a": OwnerUsage(NOW - 1, 1)}, HOUR, NOW)
    assert sorted(order) == sorted(runs)
    for owner in "ab":
        own = [run.priority + (NOW - run.queued_at) // HOUR for run in order if run.owner == owner]
        assert own == sorted(own, reverse=True)


def test_a_run_that_no_worker_could_take_has_no_place() -> None:
    capacity = Capacity([room("cpu"), room("full", total=0, free=0)])
    runs = [waiting("later", start_after=NOW + 1), waiting("big", needs="gpu"), waiting("unfit", needs="full"), waiting("a", needs="cpu")]
    assert reasons(runs, capacity) == {"a": (1, "next"), "later": (None, "time"), "big": (None, "no_worker"), "unfit": (None, "no_worker")}
    assert reasons([waiting("a")], Capacity()) == {"a": (None, "no_worker")}


def test_free_slots_go_to_the_first_in_the_order() -> None:
    runs = [waiting(name, ago) for name, ago in (("third", 1), ("first", 3), ("second", 2))]
    assert reasons(runs, Capacity([room(total=4, free=2)])) == {"first": (1, "next"), "second": (2, "next"), "third": (3, "behind")}
    assert {reason for _, reason in reasons(runs, Capacity([room(total=4, free=0)])).values()} == {"busy"}


def test_gpus_say_that_they_are_the_reason() -> None:
    """One worker with three GPUs, of which another run has one, and one without any."""
    wishes = {"two": (2, True), "one": (1, True), "cpu": (0, False), "many": (8, True), "rather": (8, False)}
    runs = [waiting(name, 9 - ago, gpus=gpus, gpu_only=only) for ago, (name, (gpus, only)) in enumerate(wishes.items())]
    capacity = Capacity([room(total=4, free=4, gpus=3), room()], taken={"host/2"})
    found = {name: reason for name, (_, reason) in reasons(runs, capacity).items()}
    assert found == {"two": "next", "one": "gpus", "cpu": "next", "many": "no_worker", "rather": "next"}
    held = Capacity([room(total=4, free=4, gpus=3)], taken={"host/1", "host/2"})
    assert {name: reason for name, (_, reason) in reasons(runs[:3], held).items()} == {"two": "gpus", "one": "gpus", "cpu": "next"}


def test_limits_say_that_they_are_the_reason() -> None:
    runs = [waiting("anna's", 2, owner="anna"), waiting("bert's", 1, owner="bert"), waiting("bert's second", owner="bert")]
    capacity = Capacity([room(total=9, free=8)], {"anna": OwnerUsage(NOW - 5, 1)}, QueueLimits(active_per_owner=1))
    found = reasons(runs, capacity)
    assert {name: reason for name, (_, reason) in found.items()} == {
        "anna's": "owner_limit",
        "bert's": "next",
        "bert's second": "owner_limit",
    }
    assert {reason for _, reason in reasons(runs, Capacity(capacity.rooms, capacity.turns, QueueLimits(active=1))).values()} == {"limit"}


def test_places_count_the_runs_of_others_without_telling_of_them(
    api: TestClient, anonymous: TestClient, database: Database, config: dict[str, Any], new_token: NewToken
) -> None:
    offer(database, "cpu")
    place = api.post("/api/v1/projects", json={"name": "secret"}).json()["id"]
    for name, project_id in (("hidden", place), ("mine", None)):
        assert api.post("/api/v1/runs", json={"config": config | {"name": name}, "project_id": project_id}).status_code == 201
    stranger = TestClient(anonymous.app, base_url="http://localhost", headers={"Authorization": f"Bearer {new_token('viewer', 'eve')}"})
    found = stranger.get("/api/v1/queue").json()
    assert (found["total"], found["slots"], found["free"], found["active"]) == (2, 1, 1, 0)
    assert [(item["run_name"], item["place"], item["reason"]) for item in found["items"]] == [("mine", 2, "behind")]
    assert len(api.get("/api/v1/queue", params={"limit": 1}).json()["items"]) == 1


def test_workers_and_what_they_carry(api: TestClient, client: Longtail, database: Database, config: dict[str, Any]) -> None:
    from backend.services.runs.attempts import claim_next

    offer(database, "cpu", "gpu:h200", slots=2)
    offer(database, seen_ago=90)
    place = client.create_project("secret").id
    for name, project_id in (("seen", None), ("hidden", place)):
        client.submit(config | {"name": name}, project_id=project_id)
    with database.write() as session:
        worker = session.query(Worker).where(Worker.slots == 2).one().id
        for _ in range(2):
            assert claim_next(session, worker, ["cpu"], QueueLimits(), 60) is not None
    carrying = next(item for item in client.workers().items if item.alive)
    assert (carrying.labels, carrying.slots, carrying.host, carrying.hidden) == (["cpu", "gpu:h200"], 2, "<b>here</b>", 0)
    assert [(lease.run_name, lease.state, lease.attempt, lease.step) for lease in carrying.leases] == [
        ("seen", "starting", 1, 0),
        ("hidden", "starting", 1, 0),
    ]
    lease = carrying.leases[0]
    assert lease.expires_at is not None
    assert lease.claimed_at is not None
    assert (lease.expires_at - lease.claimed_at).total_seconds() == pytest.approx(60, abs=1)
    items = api.get("/api/v1/workers").json()["items"]
    assert [(item["alive"], len(item["leases"]), item["hidden"]) for item in items] == [(False, 0, 0), (True, 1, 1)]


def test_a_new_priority_moves_a_queued_run(client: Longtail, database: Database) -> None:
    offer(database)
    first, second = queue(database, "first", 2), queue(database, "second", 1)
    assert [item.run_id for item in client.queue().items] == [first, second]
    assert client.change_run(second, priority=7).revision == 1
    assert [(item.run_id, item.priority) for item in client.queue().items] == [(second, 7), (first, 0)]
    assert take(database) == "second"
