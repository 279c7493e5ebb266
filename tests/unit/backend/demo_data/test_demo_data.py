"""Generated runs: they are as real ones would be, nobody carries them, and they go without a trace."""

import hashlib
import shutil
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from database_copies import DatabaseCopies
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, make_url, select
from typer.testing import CliRunner

from backend.cli import app
from backend.database import Database
from backend.demo_data import insertion, telemetry, tracked_runs, worker_hosts
from backend.demo_data.planned_runs import NEWEST, TAG, PlannedRun, long_run, planned_runs
from backend.jobs.celery import make_celery
from backend.jobs.maintenance.artifact_importer import import_artifacts
from backend.jobs.maintenance.lost_attempts import Reaper
from backend.models import Artifact, Base, LogLine, MetricBlock, MetricKey, Project, Run, RunValue, Worker
from backend.services.artifacts import upload_validation
from backend.services.health.gauges import platform_gauges
from backend.services.health.readiness import Readiness
from backend.services.queue.scheduling import QueueLimits
from backend.services.runs import search_index, submission
from backend.services.runs.attempts import claim_next
from backend.services.telemetry.event_ingest import STEPPED, EventIngestor
from backend.settings import Settings
from backend.storage.open_store import open_store
from engine.config import RunConfig
from engine.events import EventWriter

NOW = 1.8e9
COUNT = 36


@pytest.fixture(scope="module")
def plans() -> list[PlannedRun]:
    return list(planned_runs(COUNT, 0, NOW))


@pytest.fixture(scope="module")
def original_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("original")


def fill(plans: list[PlannedRun], home: Path, database: Database) -> None:
    settings = Settings(home=home)
    assert insertion.fill(database, plans, settings.runs) == [plan.id for plan in plans]
    worker_hosts.fill(database, time.time())
    import_artifacts(database, settings, open_store(settings))


@pytest.fixture
def filled(settings: Settings, database_copies: DatabaseCopies, plans: list[PlannedRun], original_home: Path) -> list[PlannedRun]:
    """Has the database of the test, and its home, begin as copies of those that were filled once."""
    home = original_home / make_url(settings.database).get_backend_name()
    database_copies.make(settings.database, "demo data", partial(fill, plans, home))
    shutil.copytree(home, settings.home, dirs_exist_ok=True)
    return plans


@pytest.fixture
def database(request: pytest.FixtureRequest, settings: Settings, make_tables: Callable[[str], None]) -> Iterator[Database]:
    if "filled" in request.fixturenames:
        request.getfixturevalue("filled")
    else:
        make_tables(settings.database)
    database = Database(settings.database)
    yield database
    database.close()


def table(database: Database, model: type[Base], run_id: str) -> Sequence[Mapping[str, Any]]:
    """What a run has in it, but for who it is."""
    own = [column for column in model.__table__.columns if column.name not in ("run_id", "id")]
    with database.read() as session:
        found = session.execute(select(*own).where(model.__table__.c.run_id == run_id).order_by(*model.__table__.primary_key))
        return [dict(row._mapping) for row in found]


def test_the_api_shows_them_as_it_shows_others(api: TestClient, new_token: Any, filled: list[PlannedRun]) -> None:
    api.headers["Authorization"] = f"Bearer {new_token('admin')}"
    items = api.get("/api/v1/runs", params={"limit": 200, "tag": TAG}).json()["items"]
    assert {item["id"]: (item["state"], item["step"]) for item in items} == {plan.id: (plan.state, plan.step) for plan in filled}
    assert {"running", "queued", "succeeded", "failed", "cancelled"} <= {item["state"] for item in items}
    assert all(RunConfig.model_validate(item["config"]).seed == item["seed"] for item in items)
    for item in items:
        path = f"/api/v1/runs/{item['id']}"
        assert (item["error"] is None) == (item["state"] != "failed")
        assert len(api.get(f"{path}/lengths").json()["items"]) == item["step"]
        series = api.get(f"{path}/metrics").json()["series"]
        assert (len(series) > 180) == (len(item["summary"]) > 180)
        assert all(
            line["steps"] == list(range(item["step"])) for key, line in series.items() if not key.startswith(("eval/", "phase/evaluation"))
        )


@pytest.mark.parametrize("what", ["lengths", "spans", "speculation", "drafters"])
def test_of_a_long_run_one_may_ask_for_some_steps_only(api: TestClient, database: Database, what: str) -> None:
    plan = long_run(6_000, 0, NOW)
    insertion.fill(database, [plan])
    path = f"/api/v1/runs/{plan.id}/{what}"
    whole = api.get(path).json()["items"]
    assert len({item["step"] for item in whole}) > 0.5 * plan.step
    some = api.get(path, params={"every": 16, "since_step": 31}).json()["items"]
    firsts = {min(steps) for _, steps in groupby((item["step"] for item in whole), key=lambda step: step // 16)}
    assert some == [item for item in whole if item["step"] in firsts and item["step"] > 31]
    if what != "drafters":  # which not every step has
        assert {item["step"] % 16 for item in some} == {0}
    assert api.get(path, params={"every": 0}).status_code == 422


def test_they_are_what_ingestion_makes_of_their_events(database: Database, tmp_path: Path) -> None:
    plan = next(
        plan for plan in planned_runs(COUNT, 0, NOW) if plan.state == "succeeded" and plan.config.speculation.enabled and not plan.until
    )
    insertion.fill(database, [plan])
    with database.write() as session:
        run_id = submission.submit(session, plan.config, submission.SubmissionOptions(tags=plan.tags, notes=plan.notes))[0].id
    writer = EventWriter(tmp_path / "events.jsonl")
    start = plan.created_at + insertion.WAITED_SECONDS
    for event in telemetry.events(plan.config.model_dump(mode="json"), None, start, (), 0, plan.says, plan.more_metrics):
        writer.write(event)
    writer.close()
    EventIngestor(database, run_id, 0, tmp_path / "events.jsonl").drain()
    parts: tuple[type[Base], ...] = (*STEPPED, MetricKey, MetricBlock, RunValue, LogLine)
    for model in parts:
        assert table(database, model, plan.id) == table(database, model, run_id), model
    progress = select(Run.step, Run.steps, Run.summary, Run.events_seq)
    with database.read() as session:
        assert session.execute(progress.where(Run.id == plan.id)).one() == session.execute(progress.where(Run.id == run_id)).one()


def test_what_they_are_found_by_is_what_the_platform_would_write(database: Database, filled: list[PlannedRun]) -> None:
    for plan in filled[:10]:
        before = table(database, RunValue, plan.id)
        with database.write() as session:
            run = session.get_one(Run, plan.id)
            session.execute(delete(RunValue).where(RunValue.run_id == plan.id))
            search_index.index_run(session, run)
            search_index.index_summary(session, plan.id, run.summary)
        assert table(database, RunValue, plan.id) == before


def test_a_seed_always_gives_the_same_runs() -> None:
    assert list(planned_runs(60, 3, NOW)) == list(planned_runs(60, 3, NOW))
    ids = [plan.id for seed in (3, 4) for plan in planned_runs(2 * NEWEST, seed, NOW)]
    assert len(set(ids)) == len(ids)


def test_their_files_can_be_downloaded_and_are_what_they_say(
    api: TestClient, new_token: Any, filled: list[PlannedRun], database: Database, tmp_path: Path
) -> None:
    api.headers["Authorization"] = f"Bearer {new_token('admin')}"
    with database.read() as session:
        files = session.scalars(select(Artifact)).all()
    assert len(files) == sum(len(plan.leaves) for plan in filled) > 0
    drafters = {file.run_id: file.details for file in files if file.type == "drafter"}
    assert all(details["drafter_version"].isdecimal() and float(details["accept_length"]) > 1 for details in drafters.values())
    assert len(drafters) == sum("drafter.zip" in plan.leaves for plan in filled) > 0
    for file in files:
        answer = api.get(f"/api/v1/artifacts/{file.id}/download")
        assert hashlib.sha256(answer.content).hexdigest() == file.sha256
    (tmp_path / "last.zip").write_bytes(answer.content)
    upload_validation.check_upload("last.zip", tmp_path / "last.zip", 2**20)
    assert zipfile.ZipFile(tmp_path / "last.zip").testzip() is None
    assert "nothing was trained" in str(upload_validation.model_card(tmp_path / "last.zip"))


def test_nobody_carries_them_and_they_take_nobody_s_place(
    database: Database, settings: Settings, filled: list[PlannedRun], run_id: str
) -> None:
    states = {plan.id: plan.state for plan in filled}
    clock = iter((0.0, 1e6, 2e6))
    reaper = Reaper(database, settings, lambda: next(clock))
    assert [reaper.reap(), reaper.reap()] == [{}, {}]
    with database.write() as session:
        claimed = claim_next(session, "worker", ["cpu", "gpu"], QueueLimits(active=1), 60.0)
        assert claimed is not None
        assert claimed.run_id == run_id
        assert claim_next(session, "worker", ["cpu", "gpu"], QueueLimits(), 60.0) is None
        assert dict(session.execute(select(Run.id, Run.state).where(Run.id != run_id)).all()) == states


def test_their_workers_show_as_living_ones_but_nobody_counts_on_them(
    api: TestClient, new_token: Any, filled: list[PlannedRun], database: Database, settings: Settings
) -> None:
    api.headers["Authorization"] = f"Bearer {new_token('admin')}"
    workers = {worker["host"]: worker for worker in api.get("/api/v1/workers").json()["items"]}
    assert {host for host, worker in workers.items() if not worker["alive"]} == {worker_hosts.GONE}
    carried = {lease["run_id"]: host for host, worker in workers.items() for lease in worker["leases"]}
    assert carried == {plan.id: worker_hosts.host(plan.config) for plan in filled if plan.state in ("starting", "running")}
    assert all(len(worker["leases"]) <= worker["slots"] and worker["generated"] for worker in workers.values())
    latest = datetime.fromtimestamp(time.time() + 100, UTC).isoformat()
    assert all(lease["expires_at"] < latest for worker in workers.values() for lease in worker["leases"])
    queue = api.get("/api/v1/queue").json()
    assert (queue["slots"], queue["active"], queue["total"]) == (0, 0, sum(plan.state == "queued" for plan in filled))
    assert {(item["reason"], item["place"]) for item in queue["items"]} == {("generated", None)}
    assert "no job worker was seen" in str(Readiness(database, make_celery(settings), settings).faults()["worker"])
    with database.read() as session:
        counted = {family.name: family.samples for family in platform_gauges(session, settings, None, time.time())}
    assert [sample.value for sample in counted["longtail_workers"]] == [0]


def test_they_go_without_a_trace(database: Database, settings: Settings, filled: list[PlannedRun], run_id: str) -> None:
    store = open_store(settings)
    assert any(store.objects())
    assert insertion.count(database) == (COUNT, 1)
    assert insertion.remove(database, settings, store) == len(filled)
    assert insertion.count(database) == (0, 1)
    assert not any(store.objects())
    assert [folder.name for folder in settings.runs.iterdir()] == []
    with database.read() as session:
        assert session.scalars(select(Run.id)).all() == [run_id]
        assert session.scalars(select(RunValue.run_id).distinct()).all() == [run_id]
        assert session.scalar(select(func.count()).select_from(Project)) == 1
        assert session.scalar(select(func.count()).select_from(Worker)) == 0


def test_what_was_done_about_the_tail_is_marked() -> None:
    switches = {"longest_first": True, "over_sampling": 1.5, "partial": True}
    told = list(telemetry.events(telemetry.config(algorithm={"steps": 3}, rollout={"scheduling": switches})))
    lengths = {event.step: event.lengths for event in told if event.kind == "rollout"}
    assert [len(found) for found in lengths.values()] == [64] * 3
    marks = {step: Counter[str]() for step in lengths}
    for event in told:
        if event.kind == "decoding":
            marks[event.step].update({what: number for _, what, number in event.marks})
            assert {time for time, what, _ in event.marks if what == "stopped"} <= {event.points[-1][0]}
    assert all(found["stopped"] for found in marks.values())
    assert [found["carried"] for found in marks.values()] == [0, marks[0]["stopped"], marks[1]["stopped"]]
    assert all(found["longest_first"] >= sum(lengths[step]) for step, found in marks.items())


def test_a_long_run_has_as_many_points_as_were_asked_for(database: Database) -> None:
    plan = long_run(30_000, 0, NOW)
    insertion.fill(database, [plan])
    with database.read() as session:
        told = session.scalars(select(MetricBlock.points).where(MetricBlock.run_id == plan.id)).all()
        ends = session.execute(select(MetricKey.first_step, MetricKey.last_step).where(MetricKey.run_id == plan.id)).all()
    assert set(ends) == {(0, plan.step - 1)}
    assert abs(len(ends) * plan.step - 30_000) < 0.05 * 30_000
    assert sum(told) > 0.9 * len(ends) * plan.step


@pytest.mark.usefixtures("run_id")
def test_the_command_does_not_mix_them_with_real_runs_unasked(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(settings.home))
    monkeypatch.setenv("LONGTAIL_DATABASE_URL", settings.database_url)

    def said(*options: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["demo-data", *options])
        return result.exit_code, result.output

    code, text = said("--runs", "2")
    assert (code, "1 runs that did happen" in text) == (2, True)
    code, text = said("--runs", "2", "--yes")
    assert (code, "2 runs in" in text) == (0, True)
    code, text = said("--runs", "2", "--yes")
    assert (code, "--remove" in text) == (2, True)
    code, text = said("--remove")
    assert (code, "2 generated runs removed, 1 others left" in text) == (0, True)


def test_some_are_told_by_scripts(api: TestClient, new_token: Any, database: Database) -> None:
    api.headers["Authorization"] = f"Bearer {new_token('admin')}"
    ids = tracked_runs.fill(database, 4 * tracked_runs.EVERY, 0, NOW)
    items = {item["id"]: item for item in api.get("/api/v1/runs", params={"tag": TAG}).json()["items"]}
    assert set(items) == set(ids)
    assert {item["kind"] for item in items.values()} == {"tracked"}
    for number, run_id in enumerate(ids):
        series = api.get(f"/api/v1/runs/{run_id}/metrics/keys").json()["items"]
        assert len(series) == len(tracked_runs.FEW_KEYS if number % 5 else tracked_runs.MANY_KEYS)
        assert items[run_id]["step"] == tracked_runs.STEPS
        assert api.get(f"/api/v1/runs/{run_id}/logs").json()["items"][0]["message"].startswith("\x1b[1;32m")
