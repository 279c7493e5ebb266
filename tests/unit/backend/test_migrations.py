from sqlalchemy import inspect

from backend.database import Database
from backend.migrate import at_head, check, downgrade, upgrade
from backend.models import Base


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


def test_migrating_with_rows_in_place_keeps_them(database: Database, run_id: str) -> None:
    upgrade(database)
    with database.reader.connect() as connection:
        assert connection.exec_driver_sql("SELECT id FROM runs").scalars().all() == [run_id]
