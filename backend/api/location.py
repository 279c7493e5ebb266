"""Where to find what a request has made."""

from fastapi import Response

from backend.api.dependencies import PREFIX


def point_to(response: Response, kind: str, identifier: str) -> None:
    """Sets Location to what has this id, such as runs/0123456789abcdef."""
    response.headers["location"] = f"{PREFIX}{kind}/{identifier}"
