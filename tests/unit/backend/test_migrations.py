from sqlalchemy import inspect, select, text

from backend.database import Database
from backend.migrate import at_head, check, downgrade, upgrade
from backend.models import Artifact, Base, Run

INSERT_RUN = """
INSERT INTO runs (id, name, state, config, seed, tags, created_at, cancel_requested, step, steps, summary, attempt, losses,
                  events_seq, events_offset)
VALUES ('aaaaaaaaaaaaaaaa', 'old', 'queued', '{}', 0, '[]', 5.0, false, 0, 1, '{}', 1, 0, -1, 0)
"""
INSERT_ATTEMPT = """
INSERT INTO attempts (run_id, number, worker_id, state, started_at) VALUES ('aaaaaaaaaaaaaaaa', 1, 'bbbbbbbbbbbbbbbb', 'running', 6.0)
"""
INSERT_ARTIFACT = """
INSERT INTO artifacts (id, run_id, name, type, path, bytes, sha256, details, created_at)
VALUES (:id, 'aaaaaaaaaaaaaaaa', 'drafter', 'drafter', :path, 1, 'x', '{}', :created_at)
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
        for number in (2, 1):
            session.execute(text(INSERT_ARTIFACT), {"id": f"{number:016d}", "path": f"{number}.zip", "created_at": number})
    for revision in ("0003", "head", "0001", "head"):
        (upgrade if revision != "0001" else downgrade)(database, revision)
        with database.read() as session:
            assert session.execute(text("SELECT id, name FROM runs")).all() == [("a" * 16, "old")]
            assert session.execute(text("SELECT run_id, number FROM attempts")).all() == [("a" * 16, 1)]
            assert session.scalar(text("SELECT count(*) FROM artifacts")) == 2
    with database.read() as session:
        run = session.get_one(Run, "a" * 16)
        assert (run.queued_at, run.priority, run.needs, run.pause_requested) == (5.0, 0, "", False)
        found = session.scalars(select(Artifact).order_by(Artifact.version)).all()
        assert [(row.id[-1], row.version, row.stored, row.missing) for row in found] == [("1", 1, False, False), ("2", 2, False, False)]
