"""HTTP under the client: one connection pool, one bearer token, and refusals as exceptions."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel

from longtail.logins import discover, token_for
from longtail.schemas.base import FieldError, Page, Problem

Reply = TypeVar("Reply", bound=BaseModel)
Result = TypeVar("Result")
Item = TypeVar("Item")
UNAUTHORIZED, NOT_FOUND = 401, 404
PASSING = frozenset({0, 408, 429, 500, 502, 503, 504})
_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[\w.-]{1,200})+", re.ASCII)
"""What ids and names are made of; others, such as ``../x``, would lead elsewhere."""
LONGEST_SHOWN = 200
MOST = 200
"""Items that the server gives on one page."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 10.0
_PAST_THE_PROXY: Mapping[str, None] = {"all://127.0.0.1": None, "all://localhost": None}


class ApiError(Exception):
    """What the server refused and why; status 0 if no server answered."""

    def __init__(self, status: int, title: str, detail: str, errors: Sequence[FieldError] = ()) -> None:
        faults = "; ".join(f"{error.field}: {error.message}" for error in errors)
        super().__init__(f"{detail}: {faults}" if faults else detail)
        self.status, self.title, self.detail, self.errors = status, title, detail, list(errors)

    @property
    def passes(self) -> bool:
        """Whether the same request may do well later."""
        return self.status in PASSING


class Transport:
    def __init__(self, base_url: str | None = None, token: str | None = None, timeout: float = 30.0) -> None:
        self.base_url = (base_url or discover()).rstrip("/")
        self.token = token_for(self.base_url) if token is None else token
        if self.token and not (self.token.isascii() and self.token.isprintable()):
            raise ApiError(UNAUTHORIZED, "Unauthorized", "this is no token: one has ASCII letters and digits only, and no line break")
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        self._http = httpx.Client(base_url=self.base_url, timeout=timeout, mounts=_PAST_THE_PROXY, headers=headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @staticmethod
    def every(ask: Callable[..., Page[Item]], *arguments: Any, **options: Any) -> Iterator[Item]:
        """All items of a list that comes in pages: ``longtail.every(longtail.runs, state="failed")``."""
        while True:
            page = ask(*arguments, **options)
            yield from page.items
            if page.next_cursor is None:
                return
            options["cursor"] = page.next_cursor

    def _all(self, schema: type[Page[Item]], path: str) -> list[Item]:
        """Of a list that comes in pages."""
        return list(self.every(partial(self._get, schema, path), limit=MOST))

    def _get(self, schema: type[Reply], path: str, **params: Any) -> Reply:
        given = {name: value for name, value in params.items() if value is not None}
        return self._reply(schema, self._request("GET", path, params=given))

    def _post(self, schema: type[Reply], path: str, body: Mapping[str, Any] | None = None) -> Reply:
        return self._reply(schema, self._request("POST", path, json=body))

    @staticmethod
    def _reply(schema: type[Reply], response: httpx.Response) -> Reply:
        return schema.model_validate_json(response.content)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        if not _PATH.fullmatch(path):
            raise _no_such_name(path.split("/", 4)[-1])  # behind /api/v1/runs/ and the like
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        self._raise_for_problem(response)
        return response

    def _unreachable(self, error: httpx.TransportError) -> ApiError:
        return ApiError(0, "No server", f"no Longtail server answers at {self.base_url} ({error}); start one with: longtail up")

    def _raise_for_problem(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        response.read()
        if "json" not in response.headers.get("content-type", ""):
            raise ApiError(response.status_code, response.reason_phrase, f"{response.request.url}: {response.text[:200]}")
        problem = Problem.model_validate_json(response.content)
        lacks_token = problem.status == UNAUTHORIZED and response.request.url.path != "/api/v1/sessions"
        hint = f"; get in with: longtail login {self.base_url}" if lacks_token else ""
        raise ApiError(problem.status, problem.title, problem.detail + hint, problem.errors)


def last_part(name: str) -> str:
    """Of a path; ApiError 404 if it has parts of its own, as those would lead elsewhere."""
    if "/" in name:
        raise _no_such_name(name)
    return name


def _no_such_name(asked: str) -> ApiError:
    shown = asked if len(asked) <= LONGEST_SHOWN else asked[:LONGEST_SHOWN] + "..."
    told = f"nothing has such an id or name: {shown!r}; they are of letters, digits, '.', '_' and '-'"
    return ApiError(NOT_FOUND, "Not found", told)


def sendable(config: Mapping[str, Any]) -> Any:
    """As JSON can hold it: an infinite number is the text "Infinity"."""
    return json.loads(json.dumps(dict(config)), parse_constant=str)


def patiently(action: Callable[[], Result], seconds: float) -> Result:
    """Tries again while the server is away or overloaded, for so long. Only for what may happen twice."""
    until, pause = time.monotonic() + seconds, FIRST_PAUSE_SECONDS
    while True:
        try:
            return action()
        except ApiError as error:
            if not error.passes or time.monotonic() + pause > until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
