"""GET /metrics: who may read it, and that its numbers are those of the database."""

import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from prometheus_client.parser import text_string_to_metric_families
from queue_cases import queue
from sqlalchemy import select, update

from backend.api import create_app
from backend.database import Database
from backend.models import Attempt, Delivery, Membership, Project, Run, User, Webhook, Worker
from backend.models.runs import GENERATED
from backend.services.health.gauges import platform_gauges
from backend.services.identity.tokens import issue
from backend.services.queue.scheduling import QueueLimits
from backend.services.runs import submission
from backend.services.runs.attempts import claim_next
from backend.settings import Settings
from engine.config import RunConfig

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(client: TestClient) -> Samples:
    reply = client.get("/metrics")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(reply.text)
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples}


def value(samples: Samples, name: str, /, **labels: str) -> float:
    return samples[f"longtail_{name}", tuple(sorted(labels.items()))]


def submit(database: Database, wishes: submission.SubmissionOptions, **changes: object) -> str:
    with database.write() as session:
        run, _ = submission.submit(session, RunConfig(name="counted"), wishes)
        session.execute(update(Run).where(Run.id == run.id).values(**changes))
        return run.id


def test_an_empty_platform(api: TestClient) -> None:
    samples = scrape(api)
    assert value(samples, "database_up") == 1
    assert value(samples, "runs", state="queued") == value(samples, "queue_oldest_seconds") == value(samples, "workers") == 0
    assert samples["process_resident_memory_bytes", ()] > 1e6


def test_the_queue_by_label_and_the_oldest_that_may_start(api: TestClient, database: Database) -> None:
    now = time.time()
    submit(database, submission.SubmissionOptions(), queued_at=now - 50)
    submit(database, submission.SubmissionOptions(needs="gpu:h200"), queued_at=now - 100)
    submit(database, submission.SubmissionOptions(start_after=now + 1000), queued_at=now - 500)
    submit(database, submission.SubmissionOptions(), state="succeeded")
    submit(database, submission.SubmissionOptions(), state="failed", deleted_at=now)
    samples = scrape(api)
    assert (value(samples, "queue_depth", needs=""), value(samples, "queue_depth", needs="gpu:h200")) == (2, 1)
    assert 100 <= value(samples, "queue_oldest_seconds") < 120
    assert [value(samples, "runs", state=state) for state in ("queued", "succeeded", "failed")] == [3, 1, 0]


HOUR = 3600.0
STUCK: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    "its turn has come": ({"device": "cpu"}, {}, 3 * HOUR),
    "the GPU is another run's": ({"workers": 1}, {}, 0),
    "nobody has the label": ({}, {"needs": "gpu:h200"}, 3 * HOUR),
    "nobody has so many GPUs": ({"workers": 8, "device": "cuda"}, {}, 3 * HOUR),
    "later": ({"device": "cpu"}, {"start_after": 4e9}, 0),
    "enough of this owner": ({"device": "cpu"}, {"owner": "anna"}, 0),
}
"""Of a run that was queued 3 hours ago: its cluster, its wishes, and how long it is stuck."""


@pytest.mark.parametrize("case", STUCK)
def test_a_run_that_waits_for_others_is_not_stuck(database: Database, settings: Settings, case: str) -> None:
    """Beside a run that has the only GPU."""
    cluster, wishes, stuck = STUCK[case]
    with database.write() as session:
        worker = Worker(host="h", pid=1, pid_started=1, slots=2, gpus={"0": "host/0"})
        session.add(worker)
        session.flush()
        submission.submit(session, RunConfig.model_validate({"cluster": {"workers": 1}}), submission.SubmissionOptions(owner="anna"))
        assert claim_next(session, worker.id, [], QueueLimits(), 60, worker.gpus) is not None
    queue(database, "waits", 3 * HOUR, {"cluster": cluster}, **wishes)
    with database.read() as session:
        asked = platform_gauges(session, settings.model_copy(update={"max_active_per_owner": 1}), None, time.time())
        found = {family.name: family.samples[0].value for family in asked if family.samples}
    assert found["longtail_queue_stuck_seconds"] == pytest.approx(stuck, abs=60)
    assert found["longtail_queue_oldest_seconds"] == pytest.approx(0 if case == "later" else 3 * HOUR, abs=60)


def test_demo_data_waits_for_nobody_and_holds_no_lease(database: Database, settings: Settings) -> None:
    with database.write() as session:
        for state in ("queued", "running"):
            run = submission.new_run(RunConfig(name="never was"), submission.SubmissionOptions())
            run.id, run.state, run.queued_at, run.lease_expires_at = f"0000000{len(state) % 2}{GENERATED}", state, 1.0, 4e9
            session.add(run)
    with database.read() as session:
        found = {family.name: family.samples[0].value for family in platform_gauges(session, settings, None, time.time()) if family.samples}
    assert [found[f"longtail_{name}"] for name in ("queue_oldest_seconds", "queue_stuck_seconds", "leases")] == [0, 0, 0]


def test_workers_leases_and_what_engines_say(api: TestClient, database: Database, settings: Settings) -> None:
    now = time.time()
    with database.write() as session:
        worker = Worker(host="h", pid=1, pid_started=1, labels=["cpu"], slots=3)
        session.add_all([worker, Worker(host="gone", pid=2, pid_started=1, seen_at=now - 1000)])
        session.flush()
        worker_id = worker.id
    summary = {"tokens_per_second": 120.5, "accept_length": None, "harvest": 0.25}
    changes = {"state": "running", "lease_expires_at": now + 40, "summary": summary, "step": 3, "steps": 12, "events_offset": 5}
    run_id = submit(database, submission.SubmissionOptions(), events_seq=9, **changes)
    with database.write() as session:
        session.add_all([Attempt(run_id=run_id, number=1, worker_id=worker_id, state="lost")])
        session.add_all([Attempt(run_id=run_id, number=2, worker_id=worker_id)])
    folder = settings.run_folder(run_id)
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(b"x" * 12)
    samples = scrape(api)
    run = {"run": run_id, "name": "counted"}
    assert (value(samples, "workers"), value(samples, "worker_slots", label="cpu"), value(samples, "worker_slots_free", label="")) == (
        1,
        3,
        2,
    )
    assert (value(samples, "leases"), value(samples, "attempts", state="lost"), value(samples, "ingested_events")) == (1, 1, 10)
    assert 30 < value(samples, "lease_left_seconds") <= 40
    assert (value(samples, "ingest_lag_bytes"), value(samples, "run_progress", **run)) == (7, 0.25)
    assert (value(samples, "run_tokens_per_second", **run), value(samples, "run_harvest", **run)) == (120.5, 0.25)
    assert not [name for name, _ in samples if name == "longtail_run_accept_length"], "not measured is not 0"


def test_latencies_by_route_and_deliveries_by_state(api: TestClient, database: Database) -> None:
    with database.write() as session:
        session.add(Webhook(id="a" * 16, url="https://example.org", events=[], secret="s"))
        session.flush()
        session.add_all(Delivery(webhook_id="a" * 16, event="ping", body="", state=state) for state in ("pending", "failed", "failed"))
    for name in ("a", "b"):
        api.get(f"/api/v1/runs/{name}")
    samples = scrape(api)
    assert value(samples, "http_request_seconds_count", method="GET", route="/api/v1/runs/{run_id}", status="404") == 2
    assert value(samples, "webhook_deliveries", state="failed") == 2


def test_a_name_cannot_break_the_text(api: TestClient, database: Database) -> None:
    submit(database, submission.SubmissionOptions(), state="running", name='a"b\nlongtail_workers 99\\')
    samples = scrape(api)
    assert value(samples, "workers") == 0
    assert any(dict(labels).get("name") == 'a"b\nlongtail_workers 99\\' for _, labels in samples)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.7", "testclient"])
def test_who_may_scrape(settings: Settings, database: Database, new_token: NewToken, opened: bool, address: str) -> None:
    assert database
    app = create_app(settings.model_copy(update={"open_metrics": opened}))
    client = TestClient(app, base_url="http://localhost", client=(address, 5))
    assert client.get("/metrics").status_code == (200 if opened and address in ("127.0.0.1", "::1") else 401)
    assert client.post("/metrics").status_code == 401
    assert client.get("/api/v1/runs").status_code == 401
    assert client.get("/metrics", headers={"Authorization": f"Bearer {new_token('viewer')}"}).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "x-forwarded-for", "Forwarded", "X-Real-IP", "X-Forwarded-Host"])
@pytest.mark.parametrize("said", ["10.0.0.7", "127.0.0.1", ""])
def test_what_a_proxy_hands_on_is_not_from_this_machine(tmp_path: Path, header: str, said: str) -> None:
    settings = Settings(home=tmp_path, open_metrics=True)
    client = TestClient(create_app(settings), base_url="http://localhost", client=("127.0.0.1", 5))
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", headers={header: said}).status_code == 401


def test_a_database_that_is_away_is_said(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, open_metrics=True, database_url=f"sqlite:///{tmp_path}")
    client = TestClient(create_app(settings), base_url="http://localhost", client=("127.0.0.1", 5))
    samples = scrape(client)
    assert value(samples, "database_up") == 0
    assert not [name for name, _ in samples if name == "longtail_runs"]


def test_a_tracked_run_without_an_end_has_no_progress_and_no_workers_lease(api: TestClient, database: Database) -> None:
    tracked = {"kind": "tracked", "state": "running", "steps": 0, "step": 3, "lease_expires_at": time.time() - 500}
    run_id = submit(database, submission.SubmissionOptions(), summary={"reward_mean": 0.5}, **tracked)
    samples = scrape(api)
    run = {"run": run_id, "name": "counted"}
    assert (value(samples, "leases"), value(samples, "run_reward_mean", **run)) == (0, 0.5)
    assert value(samples, "lease_left_seconds") > 0, "the silence of a script is no worker's"
    assert not [name for name, _ in samples if name == "longtail_run_progress"]


def test_a_run_is_told_to_those_only_who_may_see_it(settings: Settings, database: Database, new_token: NewToken) -> None:
    """Neither a stranger nor a token limited to another project, nor somebody without a token, learns that it exists."""
    member, stranger, everything = new_token("viewer", "member"), new_token("editor", "stranger"), new_token("admin", "root", "viewer")
    with database.write() as session:
        session.add_all([secret := Project(name="secret"), other := Project(name="other")])
        session.flush()
        user = session.scalars(select(User).where(User.name == "member")).one()
        session.add_all(Membership(project_id=place.id, user_id=user.id, role="viewer") for place in (secret, other))
        limited = issue(session, user, "token", "a test's", "viewer", None, project_id=other.id)[1]
        project_id = secret.id
    changes = {"state": "running", "step": 1, "steps": 4, "summary": {"reward_mean": 0.5}}
    submit(database, submission.SubmissionOptions(project_id=project_id), **changes)
    client = TestClient(create_app(settings.model_copy(update={"open_metrics": True})), base_url="http://localhost", client=("::1", 5))
    told = {}
    for token in (member, everything, stranger, limited, ""):
        client.headers["Authorization"] = f"Bearer {token}" if token else ""
        told[token] = {name.removeprefix("longtail_run_") for name, labels in scrape(client) if ("name", "counted") in labels}
    assert told[member] == told[everything] == {"progress", "reward_mean"}
    assert told[stranger] == told[limited] == told[""] == set()
