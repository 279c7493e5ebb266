from backend.database import Database
from backend.migrate import at_head, check, downgrade, upgrade
from backend.models import Base
from backend.settings import Settings


def tables(database: Database) -> set[str]:
    with database.reader.connect() as connection:
        return {name for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_up_check_down_up(settings: Settings) -> None:
    database = Database(settings.database)
    assert not at_head(database)
    upgrade(database)
    assert at_head(database)
    check(database)
    assert set(Base.metadata.tables) <= tables(database)
    downgrade(database)
    assert tables(database) & set(Base.metadata.tables) == set()
    upgrade(database)
    check(database)
    database.close()


def test_migrating_with_rows_in_place_keeps_them(database: Database, run_id: str) -> None:
    upgrade(database)
    with database.reader.connect() as connection:
        assert connection.exec_driver_sql("SELECT id FROM runs").scalars().all() == [run_id]
