"""Bodies are JSON, and say so; also because a page of another origin may send other kinds without asking (CSRF)."""

from email.message import Message

from fastapi import Request

from backend.errors import UnsupportedError


async def refuse_other_content_types(request: Request) -> None:
    """Runs before every route; those that read a body by themselves take any."""
    headers = request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body or not request.scope["route"].dependant.body_params:
        return
    given = Message()
    given["content-type"] = headers.get("content-type", "")
    kind = given.get_content_type() if headers.get("content-type") else "none"
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedError(f"the body has to be JSON and to say so by Content-Type: application/json, not {kind[:100]}")
