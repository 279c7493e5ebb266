"""What routes ask for. What never waits is async, as everything else costs a change of threads."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Query, Request
from sqlalchemy.orm import Session

from backend.api.bell import Bell
from backend.api.courier import Courier
from backend.api.limits import LoginLimits
from backend.api.measures import Measures
from backend.api.readiness import Readiness
from backend.api.scribe import Scribe
from backend.database import Database
from backend.errors import ForbiddenError
from backend.models import Run
from backend.services import runs
from backend.services.audit import AuditedDatabase
from backend.services.telemetry import LAST_STEP, Stretch
from backend.services.tokens import Identity
from backend.settings import Settings
from backend.store import Store

PREFIX = "/api/v1/"


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def _bell(request: Request) -> Bell:
    bell: Bell = request.app.state.bell
    return bell


async def _courier(request: Request) -> Courier:
    courier: Courier = request.app.state.courier
    return courier


async def _readiness(request: Request) -> Readiness:
    readiness: Readiness = request.app.state.readiness
    return readiness


async def _measures(request: Request) -> Measures:
    measures: Measures = request.app.state.measures
    return measures


async def _scribe(request: Request) -> Scribe:
    scribe: Scribe = request.app.state.scribe
    return scribe


async def _login_limits(request: Request) -> LoginLimits:
    limits: LoginLimits = request.app.state.login_limits
    return limits


async def _identity(request: Request) -> Identity:
    identity: Identity = request.state.identity
    return identity


async def _whole(identity: Annotated[Identity, Depends(_identity)]) -> Identity:
    if not identity.is_whole:
        raise ForbiddenError("this token is limited to a role or a project; an account is managed by who comes with all its rights")
    return identity


async def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _audited(
    request: Request, database: Annotated[Database, Depends(_database)], address: Annotated[str, Depends(_address)]
) -> AuditedDatabase:
    identity: Identity | None = getattr(request.state, "identity", None)
    name, token_id = (identity.user_name, identity.token_id) if identity else ("", None)
    return AuditedDatabase(database, name, token_id, request.scope["route"].name, _target(request), address)


def _target(request: Request) -> str:
    """What the path names, such as runs/0123456789abcdef; empty if it names nothing in particular."""
    parts, given = request.scope["path"].split("/"), set(request.path_params.values())
    named = [place for place, part in enumerate(parts) if part in given]
    return "/".join(parts[: named[-1] + 1]).removeprefix(PREFIX) if named else ""


def _read(database: Annotated[Database, Depends(_database)]) -> Iterator[Session]:
    with database.read() as session:
        yield session


Reading = Annotated[Session, Depends(_read)]


def _run(run_id: str, session: Reading) -> Run:
    return runs.find(session, run_id)


StoreDep = Annotated[Store, Depends(_store)]
SettingsDep = Annotated[Settings, Depends(_settings)]
PlainDatabase = Annotated[Database, Depends(_database)]
DatabaseDep = Annotated[AuditedDatabase, Depends(_audited)]
IdentityDep = Annotated[Identity, Depends(_identity)]
WholeIdentity = Annotated[Identity, Depends(_whole)]
Address = Annotated[str, Depends(_address)]
ScribeDep = Annotated[Scribe, Depends(_scribe)]
LoginLimitsDep = Annotated[LoginLimits, Depends(_login_limits)]
BellDep = Annotated[Bell, Depends(_bell)]
CourierDep = Annotated[Courier, Depends(_courier)]
ReadinessDep = Annotated[Readiness, Depends(_readiness)]
MeasuresDep = Annotated[Measures, Depends(_measures)]
RunDep = Annotated[Run, Depends(_run)]
Limit = Annotated[int, Query(ge=1, le=200)]
Cursor = Annotated[str | None, Query(max_length=200, description="next_cursor of the page before")]
LongCursor = Annotated[str | None, Query(max_length=4000, description="next_cursor of the page before")]
SinceStep = Annotated[int, Query(ge=-1, le=LAST_STEP, description="Only steps after this one; -1: all")]
UntilStep = Annotated[int, Query(ge=0, le=LAST_STEP, description="Only steps up to this one")]
Every = Annotated[int, Query(ge=1, le=2**20, description="Only steps that are multiples of it: enough to see a long run by")]


async def _stretch(since_step: SinceStep = -1, until_step: UntilStep = LAST_STEP, every: Every = 1) -> Stretch:
    return Stretch(since_step, until_step, every)


StretchDep = Annotated[Stretch, Depends(_stretch)]
LAST_LINE = 2**31 - 1
LineId = Annotated[int, Query(ge=0, le=LAST_LINE, description="Only lines with a higher id")]
