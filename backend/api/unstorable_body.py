"""What JSON can spell and no database, nor any answer, can hold: half of a surrogate pair, numbers beyond all floats, endless nesting."""

import math
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

from fastapi import Request

from backend.database import LARGEST
from backend.errors import InvalidError
from longtail.schemas.base import FieldError

LEVELS = 64
_HALF = re.compile("[\ud800-\udfff]")
NO_TEXT = "a text in it is no Unicode: it has half of a surrogate pair; send whole characters"
NO_NUMBER = f"a number in it is not finite, or beyond {LARGEST:g}; send null, or a text"
TOO_DEEP = f"it is nested deeper than {LEVELS} levels; send a flatter one"


async def refuse_unstorable_bodies(request: Request) -> None:
    """Runs before every route, which has read the body by then if it takes one."""
    if not request.scope["route"].dependant.body_params or not await request.body():
        return
    body = await request.json()
    parts: dict[str, Any] = body if isinstance(body, dict) else {"body": body}
    faults = {_shown(name): why for name, part in parts.items() if (why := fault([name, part]))}
    if faults:
        raise InvalidError("the request is not valid", [FieldError(field=name, message=why) for name, why in faults.items()])


def fault(value: Any) -> str:
    """What is wrong with a value of JSON; empty if nothing is."""
    layer = [value]
    for _ in range(LEVELS):
        if any(isinstance(each, str) and _HALF.search(each) for each in layer):
            return NO_TEXT
        if any(isinstance(each, int | float) and not _is_storable(each) for each in layer):
            return NO_NUMBER
        layer = list(chain.from_iterable(map(_parts, layer)))
    return TOO_DEEP if layer else ""


def _is_storable(number: float) -> bool:
    return math.isfinite(number) if isinstance(number, float) else abs(number) <= LARGEST


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return chain(value, value.values())
    return value if isinstance(value, list) else ()


def _shown(name: str) -> str:
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", name)
