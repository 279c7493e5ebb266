"""Curves, paces and speed-ups of many runs in one answer."""

from collections.abc import Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, update

from backend.database import Database
from backend.models import Run
from backend.services.runs.overviews import POINTS, run_overviews
from backend.services.telemetry import metric_storage


class Runs:
    def __init__(self, api: TestClient, database: Database, config: dict[str, Any]) -> None:
        self.api, self.database, self.config = api, database, config

    def add(self, plain: bool = False, at: float | None = None, step: int = 1, **changes: Any) -> str:
        """A run with a step; ``at``: when it was made."""
        body = {"config": self.config | {"speculation": {"enabled": not plain}} | changes}
        run_id: str = self.api.post("/api/v1/runs", json=body).json()["id"]
        with self.database.write() as session:
            times = {} if at is None else {"created_at": at}
            session.execute(update(Run).where(Run.id == run_id).values(step=step, **times))
        return run_id

    def write(self, run_id: str, key: str, values: Sequence[float | None]) -> None:
        rows = [{"run_id": run_id, "key": key, "step": step, "value": value} for step, value in enumerate(values)]
        with self.database.write() as session:
            metric_storage.write_points(session, run_id, rows)

    def glance(self, run_id: str) -> dict[str, Any]:
        reply = self.api.get("/api/v1/glances", params={"run": run_id})
        assert reply.status_code == 200, reply.text
        (found,) = reply.json()["items"]
        return dict(found)


@pytest.fixture
def runs(api: TestClient, database: Database, config: dict[str, Any]) -> Runs:
    return Runs(api, database, config)


@pytest.mark.parametrize(("steps", "width"), [(1, 1), (32, 1), (33, 2), (100, 4), (2049, 128), (5000, 256)])
def test_a_curve_has_means_over_equal_spans(runs: Runs, steps: int, width: int) -> None:
    run_id = runs.add()
    runs.write(run_id, "reward_mean", [float(step) for step in range(steps)])
    curve = runs.glance(run_id)["reward"]
    assert len(curve) <= POINTS
    whole = [sum(range(first, first + width)) / width for first in range(0, steps - width + 1, width)]
    assert curve[: len(whole) - 1] == whole[:-1]
    assert len(curve) >= len(whole)


def test_the_pace_is_that_of_the_latest_steps(runs: Runs) -> None:
    run_id = runs.add()
    runs.write(run_id, "step_seconds", [100.0] * 90 + [1.0, 3.0] * 5)
    assert runs.glance(run_id)["step_seconds"] == 2.0


@pytest.mark.parametrize(("plain_steps", "tlt_steps"), [(5, 3), (64, 64), (65, 200), (300, 129)])
def test_the_speedup_is_that_of_the_comparison(runs: Runs, plain_steps: int, tlt_steps: int) -> None:
    plain, tlt = runs.add(plain=True, name="plain"), runs.add(name="tlt")
    runs.write(plain, "step_seconds", [4.0 + step % 7 for step in range(plain_steps)])
    runs.write(tlt, "step_seconds", [2.0 + step % 5 for step in range(tlt_steps)])
    compared = runs.api.get("/api/v1/compare", params={"baseline": plain, "run": tlt}).json()["items"][1]
    for run_id, partner_id in ((plain, tlt), (tlt, plain)):
        glance = runs.glance(run_id)
        assert glance["partner_id"] == partner_id
        assert glance["speedup"] == pytest.approx(compared["e2e_speedup"])


def test_a_partner_is_the_newest_that_has_begun_in_the_same_project(runs: Runs) -> None:
    tlt = runs.add(at=5.0)
    old, new = runs.add(plain=True, at=1.0), runs.add(plain=True, at=2.0)
    runs.add(plain=True, at=3.0, step=0)
    runs.add(plain=True, at=4.0, seed=9)
    assert runs.glance(tlt)["partner_id"] == new
    with runs.database.write() as session:
        session.execute(update(Run).where(Run.id == new).values(deleted_at=6.0))
    assert runs.glance(tlt)["partner_id"] == old
    with runs.database.write() as session:
        session.execute(update(Run).where(Run.id == old).values(project_id="f" * 16))
    assert runs.glance(tlt)["partner_id"] is None


@pytest.mark.parametrize(("state", "is_awaited"), [("queued", True), ("starting", True), ("failed", False), ("cancelled", False)])
def test_a_partner_without_a_step_is_awaited_unless_it_has_ended(runs: Runs, state: str, is_awaited: bool) -> None:
    tlt, plain = runs.add(at=2.0), runs.add(plain=True, at=1.0, step=0)
    with runs.database.write() as session:
        session.execute(update(Run).where(Run.id == plain).values(state=state))
    glance = runs.glance(tlt)
    assert (glance["partner_id"], glance["awaited_id"]) == (None, plain if is_awaited else None)
    assert runs.glance(plain)["awaited_id"] is None, "its partner has begun"


def test_a_script_s_run_has_no_partner_but_a_curve(runs: Runs) -> None:
    tracked = runs.api.post("/api/v1/runs/tracked", json={"name": "mine", "config": {"speculation": "mine"}}).json()["id"]
    runs.add(plain=True)
    runs.write(tracked, "reward_mean", [1.0, None, 3.0])
    assert runs.glance(tracked) == {
        "run_id": tracked,
        "reward": [1.0, None, 3.0],
        "step_seconds": None,
        "partner_id": None,
        "awaited_id": None,
        "speedup": None,
    }


def test_many_runs_cost_no_more_queries_than_a_few(runs: Runs) -> None:
    ids = [runs.add(plain=number % 2 == 0, seed=number // 2) for number in range(12)]
    for run_id in ids:
        runs.write(run_id, "step_seconds", [1.0] * 70)
        runs.write(run_id, "reward_mean", [0.5] * 70)
    statements: list[str] = []
    event.listen(runs.database.reader, "before_cursor_execute", lambda _c, _k, statement, *_: statements.append(statement))
    with runs.database.read() as session:
        found = run_overviews(session, [session.get_one(Run, run_id) for run_id in ids])
    assert [glance.run_id for glance in found] == ids
    assert all(glance.speedup == 1.0 for glance in found)
    assert len([statement for statement in statements if "metric" in statement]) == 5, "ends of two series, curves, paces, sums"
