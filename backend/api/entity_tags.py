"""Conditional requests: who has seen the present state gets 304 instead of it."""

from typing import Annotated

from fastapi import Header, Response

from backend.api.error_responses import Responses

IfNoneMatch = Annotated[str, Header(max_length=2000, description="ETags of what the caller has; 304 if one of them is the present one")]
UNCHANGED: Responses = {304: {"description": "The caller has it already"}}


def is_named(header: str, tag: str) -> bool:
    """Whether an If-None-Match header names the ETag ``tag``, or any; weak ones count, too (RFC 9110, 13.1.2)."""
    named = {each.strip().removeprefix("W/") for each in header.split(",")}
    return tag in named or "*" in named


def unchanged(tag: str) -> Response:
    return Response(status_code=304, headers={"etag": tag})
