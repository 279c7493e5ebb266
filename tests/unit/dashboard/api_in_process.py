"""A platform with generated runs, whose API is asked in this process, for what pages ask it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from database_copies import DatabaseCopies
from fastapi.testclient import TestClient

from backend.api import create_app
from backend.database import Database
from backend.demo_data.insertion import fill
from backend.demo_data.planned_runs import PlannedRun
from backend.services.identity import users
from backend.services.identity.tokens import issue
from backend.settings import Settings
from longtail import Longtail
from longtail.schemas.identity import Role


class Counted(Longtail):
    """With the paths of its requests, to an API in this process."""

    def __init__(self, http: TestClient, token: str) -> None:
        super().__init__("http://localhost", token)
        http.headers["Authorization"] = f"Bearer {token}"
        self._http: Any = http
        self.asked: list[str] = []

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        self.asked.append(path)
        return super()._request(method, path, **options)


@contextmanager
def api_with_runs(home: Path, database_copies: DatabaseCopies, plans: Sequence[PlannedRun], role: Role) -> Iterator[Counted]:
    """As seen by a user of this role."""
    settings = Settings(home=home, least_free_bytes=0)
    database_copies.make(settings.database)
    database = Database(settings.database)
    fill(database, plans)
    with database.write() as session:
        token = issue(session, users.create(session, "ada", role), "token", "a test's", role, None)[1]
    database.close()
    with TestClient(create_app(settings), base_url="http://localhost") as http:
        yield Counted(http, token)
