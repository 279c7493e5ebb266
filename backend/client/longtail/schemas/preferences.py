"""What a user keeps for the dashboard."""

import json
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from longtail.schemas.base import Body, Schema

MOST_BYTES = 64 * 2**10
NAME = r"^[a-z0-9][a-z0-9_.-]{0,63}$"


def _small(items: list[JsonValue]) -> list[JsonValue]:
    size = len(json.dumps(items, ensure_ascii=False).encode())
    if size > MOST_BYTES:
        raise ValueError(f"it takes {size} bytes as JSON; {MOST_BYTES} is the most")
    return items


class Preference(Body):
    """``value`` is a list of whatever the dashboard keeps under that name."""

    value: Annotated[list[JsonValue], AfterValidator(_small)] = Field(max_length=1000)


class Preferences(Schema):
    """By name."""

    values: dict[str, list[JsonValue]]
