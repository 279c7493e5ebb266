"""Which runs a list has, in which order, and that it reads no more than it needs."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from database_copies import DatabaseCopies
from fastapi.testclient import TestClient
from sqlalchemy import event, select, text, update
from sqlalchemy.orm import Session

from backend.database import Database
from backend.models import Project, Run
from backend.services.runs import search_index, submission
from backend.services.runs.listing import RunFilter, page_of_runs
from backend.settings import Settings
from engine.config import RunConfig

STATES = ("queued", "running", "succeeded", "failed")


def add(database: Database, number: int, **fields: Any) -> str:
    with database.write() as session:
        return added(session, number, **fields)


def added(session: Session, number: int, **fields: Any) -> str:
    """A run made at ``number`` seconds."""
    own = {name: fields.pop(name) for name in ("config", "tags", "notes", "owner") if name in fields}
    config = RunConfig.model_validate({"name": f"run {number:03}", "seed": number} | own.pop("config", {}))
    run = submission.accept(session, submission.new_run(config, submission.SubmissionOptions(**own)), None, "")
    session.execute(update(Run).where(Run.id == run.id).values(created_at=float(number), **fields))
    search_index.index_summary(session, run.id, fields.get("summary", {}))
    return run.id


def add_some(database: Database) -> None:
    """Forty runs of every kind; every fifth has no reward."""
    chance = random.Random(1)
    with database.write() as session:
        for number in range(40):
            added(
                session,
                number,
                config={"model": {"path": ("tiny", "small")[number % 2]}, "algorithm": {"learning_rate": 10.0 ** -(number % 4 + 1)}},
                tags=[f"t{number % 3}", "all"],
                owner=("anna", "bert", None)[number % 3],
                state=STATES[number % 4],
                started_at=float(number) if number % 4 else None,
                finished_at=number + chance.randint(1, 5) if number % 4 > 1 else None,
                summary={"reward_mean": None if number % 5 == 0 else chance.randint(1, 6) / 10, "step_seconds": chance.random()},
            )


@pytest.fixture
def database(settings: Settings, database_copies: DatabaseCopies) -> Iterator[Database]:
    database_copies.make(settings.database, "forty runs", add_some)
    database = Database(settings.database)
    yield database
    database.close()


@pytest.fixture
def some(database: Database) -> list[str]:
    """The ids of the forty runs, first to last."""
    with database.read() as session:
        return list(session.scalars(select(Run.id).order_by(Run.created_at)))


def found(api: TestClient, **query: Any) -> list[int]:
    """Numbers of the runs, of all pages together."""
    items: list[dict[str, Any]] = []
    cursor = None
    while True:
        reply = api.get("/api/v1/runs", params={"limit": 7, **query, **({"cursor": cursor} if cursor else {})})
        assert reply.status_code == 200, reply.text
        items += reply.json()["items"]
        cursor = reply.json()["next_cursor"]
        if cursor is None:
            return [run["seed"] for run in items]


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ({"state": "failed"}, lambda n: n % 4 == 3),
        ({"state": ["failed", "queued"]}, lambda n: n % 4 in (0, 3)),
        ({"tag": "t1"}, lambda n: n % 3 == 1),
        ({"tag": ["t1", "all"]}, lambda n: n % 3 == 1),
        ({"tag": ["t1", "t2"]}, lambda _: False),
        ({"owner": "anna"}, lambda n: n % 3 == 0),
        ({"owner": "nobody"}, lambda _: False),
        ({"where": "config.model.path=tiny"}, lambda n: n % 2 == 0),
        ({"where": "config.model.path!=tiny"}, lambda n: n % 2 == 1),
        ({"where": "config.seed=7.0"}, lambda n: n == 7),
        ({"where": "config.seed>=37"}, lambda n: n >= 37),
        ({"where": "config.algorithm.learning_rate<0.002"}, lambda n: n % 4 >= 2),
        ({"where": "config.speculation.enabled=true"}, lambda _: True),
        ({"where": "config.nothing.there=1"}, lambda _: False),
        ({"where": "config.nothing.there!=1"}, lambda _: True),
        ({"where": ["config.seed>3", "config.seed<=9", "config.model.path=small"]}, lambda n: n in (5, 7, 9)),
        ({"where": "summary.reward_mean=null"}, lambda n: n % 5 == 0),
        ({"where": "summary.reward_mean>abc"}, lambda _: False),
        ({"where": "summary.reward_mean<abc"}, lambda _: False),
        ({"where": "config.model.path>small"}, lambda n: n % 2 == 0),
        ({"created_after": "1970-01-01T00:00:10Z", "created_before": "1970-01-01T00:00:12Z"}, lambda n: n in (10, 11)),
        ({"q": "N 01"}, lambda n: 10 <= n <= 19),
        ({"q": "%"}, lambda _: False),
        ({"state": "failed", "owner": "anna", "tag": "all", "q": "run"}, lambda n: n % 12 == 3),
    ],
)
def test_a_list_has_what_was_chosen(api: TestClient, query: dict[str, Any], chosen: Any) -> None:
    assert found(api, **query) == [number for number in reversed(range(40)) if chosen(number)]


@pytest.mark.parametrize(
    "sort", ["created", "name", "state", "owner", "duration", "summary.reward_mean", "summary.step_seconds", "summary.x"]
)
@pytest.mark.parametrize("falls", [False, True])
def test_a_list_can_be_sorted_either_way(api: TestClient, database: Database, some: list[str], sort: str, falls: bool) -> None:
    """Page by page the same as all at once; what lacks a value comes last."""
    with database.read() as session:
        rows = {run.seed: run for run in session.scalars(select(Run))}
    values = {
        number: {
            "created": run.created_at,
            "name": run.name,
            "state": run.state,
            "owner": run.owner,
            "duration": run.finished_at - run.started_at if run.finished_at and run.started_at else None,
        }.get(sort, run.summary.get(sort.removeprefix("summary.")))
        for number, run in rows.items()
    }
    order = found(api, sort=f"{'-' * falls}{sort}")
    assert sorted(order) == list(range(len(some)))
    keys = [(values[number], rows[number].id) for number in order]
    known = [key for key in keys if key[0] is not None]
    assert keys[: len(known)] == sorted(known, reverse=falls)
    assert [run_id for _, run_id in keys[len(known) :]] == sorted((run_id for _, run_id in keys[len(known) :]), reverse=falls)


@pytest.mark.parametrize("sort", ["-created", "name", "-summary.reward_mean"])
def test_what_comes_in_meanwhile_shifts_nothing(api: TestClient, database: Database, some: list[str], sort: str) -> None:
    before = found(api, sort=sort)
    seen: list[int] = []
    cursor = None
    for number in range(100, 200):
        page = api.get("/api/v1/runs", params={"sort": sort, "limit": 7, **({"cursor": cursor} if cursor else {})}).json()
        seen += [run["seed"] for run in page["items"]]
        add(database, number, summary={"reward_mean": number % 7 / 10})
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [number for number in seen if number < 100] == before
    assert len(seen) == len(set(seen))
    assert len(some) == len(before)


def test_a_cursor_is_of_one_order_only(api: TestClient, some: list[str]) -> None:
    cursor = api.get("/api/v1/runs", params={"sort": "name", "limit": 2}).json()["next_cursor"]
    refused = api.get("/api/v1/runs", params={"sort": "-name", "cursor": cursor})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "cursor")
    assert some


def test_a_deleted_run_leaves_the_list_with_its_values(api: TestClient, database: Database, some: list[str]) -> None:
    with database.write() as session:
        session.execute(update(Run).where(Run.id == some[0]).values(deleted_at=1.0))
    assert found(api, where="config.seed=0") == []
    assert found(api, deleted=True) == [0]
    with database.write() as session:
        session.execute(text("DELETE FROM runs WHERE id = :id"), {"id": some[0]})
        assert session.scalar(text("SELECT count(*) FROM run_values WHERE run_id = :id").bindparams(id=some[0])) == 0


def test_ids_choose_runs(api: TestClient, some: list[str]) -> None:
    assert found(api, run=[some[3], some[5], "nonsense"]) == [5, 3]


CHOICES = [
    {},
    {"states": ["failed"]},
    {"owner": "anna", "sort": "name"},
    {"tags": ["t1"], "sort": "-duration"},
    {"where": ["config.model.path=tiny"], "sort": "-summary.reward_mean"},
    {"q": "run", "states": ["failed"], "owner": "anna", "created_after": 5.0, "sort": "state"},
]


@pytest.mark.parametrize("choice", CHOICES)
def test_a_list_reads_its_index_and_the_rows_of_its_page(database: Database, some: list[str], choice: dict[str, Any]) -> None:
    statements: list[tuple[str, Any]] = []
    engine = database.reader
    event.listen(engine, "before_cursor_execute", lambda _c, _k, statement, given, *_: statements.append((statement, given)))
    with database.read() as session:
        page_of_runs(session, RunFilter(select(Project), **choice), 10, None)
    statements = [(statement, given) for statement, given in statements if statement != "BEGIN"]
    assert len(statements) == 3, "projects, ids, rows"
    assert not [statement for statement, _ in statements if "metrics" in statement]
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            plan = [row[3] for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statements[1][0], statements[1][1])]
        assert "SCAN runs USING COVERING INDEX ix_runs_list" in plan or any(
            step.startswith("SEARCH runs USING COVERING INDEX ix_runs_list") for step in plan
        ), plan
    assert some


def test_totals_by_state_are_those_of_the_filter(api: TestClient) -> None:
    assert api.get("/api/v1/runs/totals").json() == {"states": dict.fromkeys(STATES, 10)}
    assert api.get("/api/v1/runs/totals", params={"owner": "anna", "state": ["failed", "queued"]}).json()["states"].keys() <= {
        "failed",
        "queued",
    }
    assert api.get("/api/v1/runs/totals", params={"q": "nothing like that"}).json() == {"states": {}}
