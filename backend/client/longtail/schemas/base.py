"""What every schema is made of, and the one shape of an error."""

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict

T = TypeVar("T")
BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""What Unicode calls letters or symbols, and fonts draw as nothing."""


def _iso(value: Any) -> Any:
    """Numbers, also as text, are not taken for seconds since the epoch: the document says date-time."""
    if not isinstance(value, datetime) and not (isinstance(value, str) and "T" in value.upper()):
        raise ValueError("not a date and time such as 2026-01-31T08:00:00Z")
    return value


def number(value: Any) -> Any:
    """For BeforeValidator: true and "5" are not taken for numbers, but 5.0 is an integer, as JSON has it."""
    if isinstance(value, bool | str):
        raise ValueError("not a number")
    return value


def visible(name: str) -> str:
    """For AfterValidator: ValueError for a name of which nothing is drawn, as of spaces, or of zero width."""
    if not any(unicodedata.category(letter)[0] in "LNPS" and letter not in BLANK for letter in name):
        raise ValueError("nothing of it can be seen; give it a letter, a digit or a sign")
    return name


Moment = Annotated[AwareDatetime, BeforeValidator(_iso)]


class Schema(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Body(BaseModel):
    """Of a request: a field that nobody knows is an error."""

    model_config = ConfigDict(extra="forbid")


class Items(Schema, Generic[T]):
    items: list[T]

    @classmethod
    def of(cls, found: Iterable[Any]) -> Self:
        """Of rows, or whatever else has an item's attributes."""
        return cls.model_validate({"items": found})


class Page(Items[T], Generic[T]):
    """``next_cursor`` asks for what comes after it; null: nothing does."""

    next_cursor: str | None

    @classmethod
    def from_rows(cls, found: tuple[Sequence[Any], str | None]) -> Self:
        items, next_cursor = found
        return cls.model_validate({"items": items, "next_cursor": next_cursor})


class StepItems(Items[T], Generic[T]):
    """Of whole steps. ``next_since_step``, as ``since_step``, asks for what comes after them; null: that was all."""

    next_since_step: int | None = None


class FieldError(Schema):
    """One fault: the dotted field of the configuration (or the parameter) and what is wrong with it."""

    field: str
    message: str


class Problem(Schema):
    """RFC 9457 problem details: the one shape of every error."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []
