from sqlalchemy import inspect, text

from backend.database import Database
from backend.migrate import at_head, check, downgrade, upgrade
from backend.models import Base, MetricBlock, Run
from backend.services.metrics import overview

INSERT_RUN = """
INSERT INTO runs (id, name, state, config, seed, tags, created_at, cancel_requested, step, steps, summary, attempt, losses,
                  events_seq, events_offset)
VALUES ('aaaaaaaaaaaaaaaa', 'old', 'queued', '{}', 0, '[]', 5.0, false, 0, 1, '{}', 1, 0, -1, 0)
"""
INSERT_METRICS = """
INSERT INTO metrics (run_id, key, step, value)
VALUES ('aaaaaaaaaaaaaaaa', 'loss', 3, 2.5), ('aaaaaaaaaaaaaaaa', 'loss', 63, null), ('aaaaaaaaaaaaaaaa', 'loss', 64, 1.5)
"""
INSERT_ATTEMPT = """
INSERT INTO attempts (run_id, number, worker_id, state, started_at) VALUES ('aaaaaaaaaaaaaaaa', 1, 'bbbbbbbbbbbbbbbb', 'running', 6.0)
"""


def tables(database: Database) -> set[str]:
    return set(inspect(database.writer).get_table_names())


def test_up_check_down_up(bare_database: Database) -> None:
    database = bare_database
    assert not at_head(database)
    upgrade(database)
    assert at_head(database)
    check(database)
    assert set(Base.metadata.tables) <= tables(database)
    downgrade(database)
    assert tables(database) & set(Base.metadata.tables) == set()
    upgrade(database)
    check(database)


def test_rows_live_through_every_step_down_and_up(bare_database: Database) -> None:
    """Children too: SQLite would delete an attempt with the run's table, were that made anew."""
    database = bare_database
    upgrade(database, "0001")
    with database.write() as session:
        session.execute(text(INSERT_RUN))
        session.execute(text(INSERT_ATTEMPT))
        session.execute(text(INSERT_METRICS))
    for revision in ("0003", "head", "0001", "head"):
        (upgrade if revision != "0001" else downgrade)(database, revision)
        with database.read() as session:
            assert session.execute(text("SELECT id, name FROM runs")).all() == [("a" * 16, "old")]
            assert session.execute(text("SELECT run_id, number FROM attempts")).all() == [("a" * 16, 1)]
    with database.read() as session:
        run = session.get_one(Run, "a" * 16)
        assert (run.queued_at, run.priority, run.needs, run.pause_requested, run.kind) == (5.0, 0, "", False, "engine")
        assert [(key.points, key.first_step, key.last_step, key.value) for key in overview(session, run.id)] == [(3, 3, 64, 1.5)]
        block = session.get_one(MetricBlock, (run.id, "loss", 0))
        assert (block.first_step, block.points, block.numbers, block.low, block.high, block.total) == (3, 2, 1, 2.5, 2.5, 2.5)


def test_who_goes_back_closes_the_runs_that_it_would_not_understand(bare_database: Database) -> None:
    upgrade(bare_database)
    with bare_database.write() as session:
        tracked = Run(id="b" * 16, name="mine", kind="tracked", state="running", config={}, seed=0, steps=0, step=4)
        session.add(tracked)
    downgrade(bare_database, "0005")
    with bare_database.read() as session:
        assert session.execute(text("SELECT state, steps FROM runs")).all() == [("failed", 5)]
