"""What routes ask for."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Query, Request
from sqlalchemy.orm import Session

from backend.api.bell import Bell
from backend.database import Database
from backend.models import Run
from backend.services import runs
from backend.settings import Settings


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


def _bell(request: Request) -> Bell:
    bell: Bell = request.app.state.bell
    return bell


def _read(database: Annotated[Database, Depends(_database)]) -> Iterator[Session]:
    with database.read() as session:
        yield session


Reading = Annotated[Session, Depends(_read)]


def _run(run_id: str, session: Reading) -> Run:
    return runs.find(session, run_id)


SettingsDep = Annotated[Settings, Depends(_settings)]
DatabaseDep = Annotated[Database, Depends(_database)]
BellDep = Annotated[Bell, Depends(_bell)]
RunDep = Annotated[Run, Depends(_run)]
SinceStep = Annotated[int, Query(ge=-1, le=2**31 - 1, description="Only steps after this one; -1: all")]
