"""What routes ask for. What never waits is async, as everything else costs a change of threads."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from sqlalchemy.orm import Session

from backend.api.background.metric_batch_writer import MetricBatchWriter
from backend.api.background.webhook_sender import WebhookSender
from backend.api.background.worker_notifier import WorkerNotifier
from backend.api.rate_limits import LoginLimits, RateLimit
from backend.database import Database
from backend.errors import ForbiddenError
from backend.models import Run
from backend.services.health.prometheus import PrometheusMetrics
from backend.services.health.readiness import Readiness
from backend.services.identity.audit import AuditedDatabase
from backend.services.identity.tokens import Identity
from backend.services.runs import lookup
from backend.services.runs.submission import SubmissionKey
from backend.services.telemetry.step_rows import LAST_STEP, StepRange
from backend.settings import Settings
from backend.storage.store import Store

PREFIX = "/api/v1/"


def _of_app(name: str) -> Callable[[Request], Awaitable[Any]]:
    """What create_app has put into the application's state under this name."""

    async def find(request: Request) -> Any:
        return getattr(request.app.state, name)

    return find


_database = _of_app("database")


async def _identity(request: Request) -> Identity:
    identity: Identity = request.state.identity
    return identity


async def _optional_identity(request: Request) -> Identity | None:
    """None where nobody needs a token, and none came."""
    return getattr(request.state, "identity", None)


async def _unrestricted(identity: Annotated[Identity, Depends(_identity)]) -> Identity:
    if not identity.is_unrestricted:
        raise ForbiddenError("this token is limited to a role or a project; an account is managed by who comes with all its rights")
    return identity


KeyText = Annotated[
    str | None,
    Header(min_length=1, max_length=200, pattern=r"^[^\x00]*$", description="Makes a repeated submission of one's own give the first run"),
]


async def _submission_key(identity: Annotated[Identity, Depends(_identity)], idempotency_key: KeyText = None) -> SubmissionKey | None:
    return SubmissionKey(identity.user_id, idempotency_key) if idempotency_key else None


async def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _audited(
    request: Request, database: Annotated[Database, Depends(_database)], address: Annotated[str, Depends(_address)]
) -> AuditedDatabase:
    identity = await _optional_identity(request)
    name, token_id = (identity.user_name, identity.token_id) if identity else ("", None)
    return AuditedDatabase(database, name, token_id, request.scope["route"].name, _target(request), address)


def _target(request: Request) -> str:
    """What the path names, such as runs/0123456789abcdef; empty if it names nothing in particular."""
    parts, given = request.scope["path"].split("/"), set(request.path_params.values())
    named = [place for place, part in enumerate(parts) if part in given]
    return "/".join(parts[: named[-1] + 1]).removeprefix(PREFIX) if named else ""


def _read(database: Annotated[Database, Depends(_database)]) -> Iterator[Session]:
    """Until the route has answered, and not until the client has taken the answer, however long that takes."""
    with database.read() as session:
        yield session


ReadSession = Annotated[Session, Depends(_read, scope="function")]


def _run(run_id: str, session: ReadSession) -> Run:
    return lookup.find(session, run_id)


StoreDep = Annotated[Store, Depends(_of_app("store"))]
SettingsDep = Annotated[Settings, Depends(_of_app("settings"))]
UnauditedDatabase = Annotated[Database, Depends(_database)]
DatabaseDep = Annotated[AuditedDatabase, Depends(_audited)]
IdentityDep = Annotated[Identity, Depends(_identity)]
OptionalIdentity = Annotated[Identity | None, Depends(_optional_identity)]
UnrestrictedIdentity = Annotated[Identity, Depends(_unrestricted)]
SubmissionKeyDep = Annotated[SubmissionKey | None, Depends(_submission_key)]
Address = Annotated[str, Depends(_address)]
MetricBatchWriterDep = Annotated[MetricBatchWriter, Depends(_of_app("batch_writer"))]
BatchAuditTurnsDep = Annotated[RateLimit, Depends(_of_app("batch_audit_turns"))]
LoginLimitsDep = Annotated[LoginLimits, Depends(_of_app("login_limits"))]
NotifierDep = Annotated[WorkerNotifier, Depends(_of_app("notifier"))]
WebhookSenderDep = Annotated[WebhookSender, Depends(_of_app("webhook_sender"))]
ReadinessDep = Annotated[Readiness, Depends(_of_app("readiness"))]
PrometheusDep = Annotated[PrometheusMetrics, Depends(_of_app("prometheus"))]
RunDep = Annotated[Run, Depends(_run)]
Limit = Annotated[int, Query(ge=1, le=200)]
Cursor = Annotated[str | None, Query(max_length=200, description="next_cursor of the page before")]
LongCursor = Annotated[str | None, Query(max_length=4000, description="next_cursor of the page before")]
SinceStep = Annotated[int, Query(ge=-1, le=LAST_STEP, description="Only steps after this one; -1: all")]
UntilStep = Annotated[int, Query(ge=0, le=LAST_STEP, description="Only steps up to this one")]
Every = Annotated[int, Query(ge=1, le=2**20, description="Of so many steps only the first that has any: enough to see a long run by")]


async def _step_range(since_step: SinceStep = -1, until_step: UntilStep = LAST_STEP, every: Every = 1) -> StepRange:
    return StepRange(since_step, until_step, every)


StepRangeDep = Annotated[StepRange, Depends(_step_range)]
LAST_LINE = 2**31 - 1
LineId = Annotated[int, Query(ge=0, le=LAST_LINE, description="Only lines with a higher id")]
