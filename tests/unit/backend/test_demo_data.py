"""Generated runs: they are as real ones would be, nobody carries them, and they go without a trace."""

import hashlib
import time
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, select
from typer.testing import CliRunner

from backend.api.readiness import Readiness
from backend.cli import app
from backend.database import Database
from backend.demo_data import fill, hosts, scripts, telemetry
from backend.demo_data.plans import NEWEST, TAG, Plan, long_plan, plans
from backend.ingest import STEPPED, Ingestor
from backend.jobs.celery import make_celery
from backend.jobs.keeper import keep
from backend.jobs.reaper import Reaper
from backend.models import Artifact, Base, LogLine, MetricBlock, MetricKey, Project, Run, RunValue, Worker
from backend.services import content, run_values, runs
from backend.services.attempts import claim_next
from backend.services.figures import figures
from backend.services.queue import Limits
from backend.settings import Settings
from backend.store import open_store
from engine.config import RunConfig
from engine.events import EventWriter

NOW = 1.8e9
COUNT = 36


@pytest.fixture
def filled(database: Database, settings: Settings) -> list[Plan]:
    wanted = list(plans(COUNT, 0, NOW))
    assert fill.fill(database, wanted, settings.runs) == [plan.id for plan in wanted]
    hosts.fill(database, time.time())
    keep(database, settings, open_store(settings))
    return wanted


def table(database: Database, model: type[Base], run_id: str) -> Sequence[Mapping[str, Any]]:
    """What a run has in it, but for who it is."""
    own = [column for column in model.__table__.columns if column.name not in ("run_id", "id")]
    with database.read() as session:
        found = session.execute(select(*own).where(model.__table__.c.run_id == run_id).order_by(*model.__table__.primary_key))
        return [dict(row._mapping) for row in found]


def test_the_api_shows_them_as_it_shows_others(api: TestClient, new_token: Any, filled: list[Plan]) -> None:
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
    plan = long_plan(6_000, 0, NOW)
    fill.fill(database, [plan])
    path = f"/api/v1/runs/{plan.id}/{what}"
    whole = api.get(path).json()["items"]
    assert len({item["step"] for item in whole}) > 0.5 * plan.step
    some = api.get(path, params={"every": 16, "since_step": 31}).json()["items"]
    assert some == [item for item in whole if item["step"] % 16 == 0 and item["step"] > 31]
    assert api.get(path, params={"every": 0}).status_code == 422


def test_they_are_what_ingestion_makes_of_their_events(database: Database, tmp_path: Path) -> None:
    plan = next(plan for plan in plans(COUNT, 0, NOW) if plan.state == "succeeded" and plan.config.speculation.enabled and not plan.until)
    fill.fill(database, [plan])
    with database.write() as session:
        run_id = runs.submit(session, plan.config, runs.Wishes(tags=plan.tags, notes=plan.notes))[0].id
    writer = EventWriter(tmp_path / "events.jsonl")
    start = plan.created_at + fill.WAITED_SECONDS
    for event in telemetry.events(plan.config.model_dump(mode="json"), None, start, (), 0, plan.says, plan.more_metrics):
        writer.write(event)
    writer.close()
    Ingestor(database, run_id, 0, tmp_path / "events.jsonl").drain()
    parts: tuple[type[Base], ...] = (*STEPPED, MetricKey, MetricBlock, RunValue, LogLine)
    for model in parts:
        assert table(database, model, plan.id) == table(database, model, run_id), model
    progress = select(Run.step, Run.steps, Run.summary, Run.events_seq)
    with database.read() as session:
        assert session.execute(progress.where(Run.id == plan.id)).one() == session.execute(progress.where(Run.id == run_id)).one()


def test_what_they_are_found_by_is_what_the_platform_would_write(database: Database, filled: list[Plan]) -> None:
    for plan in filled[:10]:
        before = table(database, RunValue, plan.id)
        with database.write() as session:
            run = session.get_one(Run, plan.id)
            session.execute(delete(RunValue).where(RunValue.run_id == plan.id))
            run_values.describe(session, run)
            run_values.summarise(session, plan.id, run.summary)
        assert table(database, RunValue, plan.id) == before


def test_a_seed_always_gives_the_same_runs() -> None:
    assert list(plans(60, 3, NOW)) == list(plans(60, 3, NOW))
    ids = [plan.id for seed in (3, 4) for plan in plans(2 * NEWEST, seed, NOW)]
    assert len(set(ids)) == len(ids)


def test_their_files_can_be_downloaded_and_are_what_they_say(
    api: TestClient, new_token: Any, filled: list[Plan], database: Database, tmp_path: Path
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
    content.check("last.zip", tmp_path / "last.zip", 2**20)
    assert zipfile.ZipFile(tmp_path / "last.zip").testzip() is None
    assert "nothing was trained" in str(content.model_card(tmp_path / "last.zip"))


def test_nobody_carries_them_and_they_take_nobody_s_place(database: Database, settings: Settings, filled: list[Plan], run_id: str) -> None:
    states = {plan.id: plan.state for plan in filled}
    clock = iter((0.0, 1e6, 2e6))
    reaper = Reaper(database, settings, lambda: next(clock))
    assert [reaper.reap(), reaper.reap()] == [{}, {}]
    with database.write() as session:
        claimed = claim_next(session, "worker", ["cpu", "gpu"], Limits(active=1), 60.0)
        assert claimed is not None
        assert claimed.run_id == run_id
        assert claim_next(session, "worker", ["cpu", "gpu"], Limits(), 60.0) is None
        assert dict(session.execute(select(Run.id, Run.state).where(Run.id != run_id)).all()) == states


def test_their_workers_show_as_living_ones_but_nobody_counts_on_them(
    api: TestClient, new_token: Any, filled: list[Plan], database: Database, settings: Settings
) -> None:
    api.headers["Authorization"] = f"Bearer {new_token('admin')}"
    workers = {worker["host"]: worker for worker in api.get("/api/v1/workers").json()["items"]}
    assert {host for host, worker in workers.items() if not worker["alive"]} == {hosts.GONE}
    carried = {lease["run_id"]: host for host, worker in workers.items() for lease in worker["leases"]}
    assert carried == {plan.id: hosts.host(plan.config) for plan in filled if plan.state in ("starting", "running")}
    assert all(len(worker["leases"]) <= worker["slots"] and worker["generated"] for worker in workers.values())
    latest = datetime.fromtimestamp(time.time() + 100, UTC).isoformat()
    assert all(lease["expires_at"] < latest for worker in workers.values() for lease in worker["leases"])
    queue = api.get("/api/v1/queue").json()
    assert (queue["slots"], queue["active"], queue["total"]) == (0, 0, sum(plan.state == "queued" for plan in filled))
    assert {(item["reason"], item["place"]) for item in queue["items"]} == {("generated", None)}
    assert "no job worker was seen" in str(Readiness(database, make_celery(settings), settings).faults()["worker"])
    with database.read() as session:
        counted = {family.name: family.samples for family in figures(session, settings, time.time())}
    assert [sample.value for sample in counted["longtail_workers"]] == [0]


def test_they_go_without_a_trace(database: Database, settings: Settings, filled: list[Plan], run_id: str) -> None:
    store = open_store(settings)
    assert any(store.objects())
    assert fill.count(database) == (COUNT, 1)
    assert fill.remove(database, settings, store) == len(filled)
    assert fill.count(database) == (0, 1)
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
    plan = long_plan(30_000, 0, NOW)
    fill.fill(database, [plan])
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
    ids = scripts.fill(database, 4 * scripts.EVERY, 0, NOW)
    items = {item["id"]: item for item in api.get("/api/v1/runs", params={"tag": TAG}).json()["items"]}
    assert set(items) == set(ids)
    assert {item["kind"] for item in items.values()} == {"tracked"}
    for number, run_id in enumerate(ids):
        series = api.get(f"/api/v1/runs/{run_id}/metrics/keys").json()["items"]
        assert len(series) == len(scripts.FEW_KEYS if number % 5 else scripts.MANY_KEYS)
        assert items[run_id]["step"] == scripts.STEPS
        assert api.get(f"/api/v1/runs/{run_id}/logs").json()["items"][0]["message"].startswith("\x1b[1;32m")
