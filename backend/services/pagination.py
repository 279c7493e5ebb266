"""Pages of a list by cursor: rows that come in meanwhile shift nothing."""

import base64
import binascii
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from backend.errors import InvalidError
from longtail.schemas.base import FieldError

MOST_INTEGER = 2**31


def page(
    session: Session,
    query: Select[Any],
    order: Sequence[InstrumentedAttribute[Any]],
    limit: int,
    cursor: str | None,
    *,
    rises: bool = False,
) -> tuple[Sequence[Any], str | None]:
    """``limit`` rows of ``query``, by ``order``, which tells any two rows apart, falling unless it ``rises``; the cursor of the next page,
    None at the end."""
    kinds = [column.type.python_type for column in order]

    def fits(values: list[Any]) -> bool:
        return [type(value) for value in values] == kinds and all(map(_possible, values))

    query = query.order_by(*(column.asc() if rises else column.desc() for column in order)).limit(limit + 1)
    if cursor is not None:
        place, last = tuple_(*order), tuple(decode(cursor, fits))
        query = query.where(place > last if rises else place < last)
    found = session.scalars(query).unique().all()
    return found[:limit], encode([getattr(found[limit - 1], column.key) for column in order]) if len(found) > limit else None


def encode(values: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, ensure_ascii=False).encode()).decode()


def decode(cursor: str, fits: Callable[[list[Any]], bool]) -> list[Any]:
    """What ``encode`` was given; InvalidError if that cannot have been this or it does not fit."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor))
        if isinstance(values, list) and fits(values):
            return values
    except (binascii.Error, ValueError, TypeError, RecursionError):
        pass
    raise InvalidError("the cursor is not one that this server gave", [FieldError(field="cursor", message="unknown cursor")])


def _possible(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value.isprintable() if isinstance(value, str) else 0 <= value < MOST_INTEGER
