"""How a browser gets its session: by the form at /login, or at /enter by the ticket that ``longtail up`` prints."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dashboard.auth.api_client import client_of_session, cookie_name
from dashboard.auth.session_middleware import has_session
from longtail import ApiError, Longtail
from longtail.schemas.identity import NewSession

PAGE = Path(__file__).parents[1] / "assets" / "login.html"
MOST_BYTES = 4096
CSP = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
NEWS: Mapping[str, str] = {
    "over": "This link has been used, or is more than 10 minutes old. Get a new one with: longtail open",
    "away": "The Longtail API does not answer.",
}


async def form(request: Request) -> Response:
    return page(request.query_params.get("next", "/"), NEWS.get(request.query_params.get("news", ""), ""))


async def log_in(request: Request) -> Response:
    if not _same_origin(request) or int(request.headers.get("content-length", MOST_BYTES + 1)) > MOST_BYTES:
        return page("/", "That did not come from this form.", 403)
    given = {name: str(value) for name, value in (await request.form()).items()}
    user, secret, after = (given.get(name, "") for name in ("user", "secret", "next"))

    def prove(api: Longtail, address: str) -> NewSession:
        return api.log_in(user, secret, address) if user else api.log_in_by_token(secret.strip(), address)

    return await _opened(request, prove, after, lambda error: page(after, error.detail, error.status or 503, user))


async def enter(request: Request) -> Response:
    after = request.query_params.get("next", "/")
    if await run_in_threadpool(has_session, request):
        return RedirectResponse(_here(after), 303)
    ticket = request.query_params.get("ticket", "")

    def refused(error: ApiError) -> Response:
        news = "over" if error.status else "away"
        return RedirectResponse(f"/login?{urlencode({'next': _here(after), 'news': news})}", 303)

    return await _opened(request, lambda api, address: api.log_in_by_ticket(ticket, address), after, refused)


def page(after: str, said: str, status: int = 200, user: str = "") -> HTMLResponse:
    values = {"user": user, "next": _here(after), "said": said}
    text = PAGE.read_text(encoding="utf-8")
    filled = re.sub(r"\{(user|next|said)\}", lambda place: escape(values[place[1]]), text)
    return HTMLResponse(filled, status, {"content-security-policy": CSP, "cache-control": "no-store"})


async def _opened(
    request: Request, prove: Callable[[Longtail, str], NewSession], after: str, refused: Callable[[ApiError], Response]
) -> Response:
    """To where the visitor wanted, with a session in the cookie; or what ``refused`` says."""
    address = request.client.host if request.client else ""
    try:
        session = await run_in_threadpool(prove, client_of_session(""), address)
    except ApiError as error:
        return refused(error)
    response = RedirectResponse(_here(after), 303, {"cache-control": "no-store"})
    seconds = int((session.expires_at - datetime.now(UTC)).total_seconds())
    secure = request.url.scheme == "https"
    response.set_cookie(cookie_name(), session.token, max_age=seconds, httponly=True, samesite="lax", secure=secure)
    return response


def _here(after: str) -> str:
    """``after`` if it is a page of this dashboard, else the first one."""
    parts = urlsplit(after)
    foreign = parts.scheme or parts.netloc or not after.startswith("/") or after.startswith(("//", "/\\")) or not after.isprintable()
    return "/" if foreign else after


def _same_origin(request: Request) -> bool:
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


ROUTES = [Route("/login", form), Route("/login", log_in, methods=["POST"]), Route("/enter", enter)]
