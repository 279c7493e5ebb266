"""The API keeps to its OpenAPI document, whoever asks: requests made up from the document, good ones and bad ones.

By default some thirty for each route, which the roles share, on SQLite; ``make test-all`` makes up a hundred for each route and role, and
asks on PostgreSQL, too.
"""

import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count, product
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from postgres_for_tests import Postgres
from schemathesis import Case
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance, unsupported_method
from sizes import ALL
from starlette.types import Receive, Scope, Send

from backend.api import create_app
from backend.database import Database
from backend.migrate import upgrade
from backend.models import Worker
from backend.services.identity import users
from backend.services.identity.tokens import issue
from backend.settings import Settings
from longtail.schemas.identity import Role

EXAMPLES = 100 if ALL else 10
"""Beside those of the boundaries that the document names."""
Asker = Literal["nobody"] | Role
ROLES: tuple[Asker, ...] = ("admin", "editor", "viewer", "nobody")
DATABASES = ("sqlite", "postgresql")
INVALID = 422
PATIENCE_SECONDS = 600
HOME = tempfile.TemporaryDirectory()
SETTINGS = Settings(home=Path(HOME.name), requests_per_second=1e6, failed_logins_per_minute=1e6)
numbers = count()


class Standing:
    """The app of the test's database without its start and stop, which every single call would go through."""

    def __init__(self) -> None:
        self.app = create_app(SETTINGS)
        self.kind = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})


standing = Standing()
schema = schemathesis.openapi.from_dict(standing.app.openapi())
schema.app = standing


@pytest.fixture(scope="session")
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Database]]:
    """Gives the database of a kind, the same one each time, and has the app stand on it."""
    server: Postgres | None = request.getfixturevalue("postgres") if ALL else None  # before the databases, so that it outlives them
    with ExitStack() as resources:
        known: dict[str, tuple[Settings, Database]] = {}

        def open_database(kind: str) -> tuple[Settings, Database]:
            assert server or kind == "sqlite"
            url = resources.enter_context(server.database()) if server and kind == "postgresql" else ""
            chosen = SETTINGS.model_copy(update={"database_url": url})
            database = Database(chosen.database)
            resources.callback(database.close)
            upgrade(database)
            with database.write() as session:
                session.add(Worker(host="here", pid=1, pid_started=1, seen_at=time.time() + 24 * 3600))
            return chosen, database

        def stand_on(kind: str) -> Database:
            if kind not in known:
                known[kind] = open_database(kind)
            chosen, database = known[kind]
            if standing.kind != kind:
                standing.app, standing.kind = create_app(chosen), kind
            return database

        yield stand_on


@pytest.fixture
def database(request: pytest.FixtureRequest, opened: Callable[[str], Database]) -> Database:
    """With a worker that was seen lately, and will have been for a day."""
    return opened(request.param)


def token(database: Database, role: Asker) -> dict[str, str]:
    """Of a user of this role that is made anew, as a made-up request may log the one before out."""
    if role == "nobody":
        return {}
    with database.write() as session:
        user = users.create(session, f"{role}-{next(numbers)}", role)
        return {"Authorization": f"Bearer {issue(session, user, 'token', 'a test', role, None)[1]}"}


def is_judged(case: Case[Any], reply: schemathesis.Response) -> bool:
    """Whether it was refused for what no schema says: a cursor is one that was given out, a name can be seen, a configuration fits
    together."""
    faults = {error["field"] for error in reply.json()["errors"]} if reply.status_code == INVALID else set()
    return faults in ({"cursor"}, {"name"}) or (bool(faults) and case.operation.label in ("POST /api/v1/runs", "POST /api/v1/plans"))


def is_list_of_one(case: Case[Any]) -> bool:
    """Whether a value stands where a list belongs: in a URL that is a list of one, and no fault."""
    lists = {parameter["name"] for parameter in case.operation.definition.raw.get("parameters", ()) if "array" in str(parameter["schema"])}
    return any(isinstance(value, str) for name, value in (case.query or {}).items() if name in lists)


def is_unsent(case: Case[Any], reply: schemathesis.Response) -> bool:
    """Whether a value has not come to the address: an empty list leaves no trace there."""
    sent = parse_qs(urlsplit(str(reply.request.url)).query, keep_blank_values=True)
    return any(name not in sent for name in case.query or {})


def whose_turn(case: Case[Any]) -> Asker:
    """The same one for the same request, so that a failure can be repeated."""
    request = repr((case.method, case.path_parameters, case.query, case.headers, case.cookies, case.body))
    return ROLES[zlib.crc32(request.encode(errors="replace")) % len(ROLES)]


@pytest.mark.parametrize(("role", "database"), [*product(ROLES, DATABASES)] if ALL else [(None, "sqlite")], indirect=["database"])
@schema.parametrize()
@settings(max_examples=EXAMPLES, derandomize=not ALL, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_declared(case: Case[Any], role: Asker | None, database: Database) -> None:
    """``role`` asks; if None, the roles take turns."""
    asker = role or whose_turn(case)
    headers = {"Host": "localhost"} | token(database, asker)
    reply = case.call(headers=headers, timeout=PATIENCE_SECONDS)
    left_out = [unsupported_method] if asker == "nobody" else []  # who has no token does not even learn which methods there are
    left_out += [positive_data_acceptance] if is_judged(case, reply) else []
    left_out += [negative_data_rejection] if is_list_of_one(case) or is_unsent(case, reply) else []
    case.validate_response(reply, excluded_checks=left_out, transport_kwargs={"headers": headers})
