"""What all tables share."""

import re
import secrets
from typing import Annotated, Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, MetaData, String, Table
from sqlalchemy.orm import DeclarativeBase, mapped_column

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
ID_BYTES = 8

BigInt = Annotated[int, mapped_column(BigInteger)]
Id = Annotated[str, mapped_column(String(2 * ID_BYTES))]
RunKey = Annotated[str, mapped_column(String(2 * ID_BYTES), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, sort_order=-1)]
RunReference = Annotated[str, mapped_column(String(2 * ID_BYTES), ForeignKey("runs.id", ondelete="CASCADE"), index=True)]


class Base(DeclarativeBase):
    __table__: Table  # type: ignore[misc]
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012
        float: Double(),
        dict[str, Any]: JSON(),
        dict[str, str]: JSON(),
        dict[str, float | None]: JSON(),
        list[dict[str, Any]]: JSON(),
        list[list[Any]]: JSON(),
        list[Any]: JSON(),
        list[str]: JSON(),
        list[int]: JSON(),
        list[float]: JSON(),
    }


def is_id(text: str) -> bool:
    """Whether ``text`` could have come from ``new_id``; nothing else is worth asking the database about."""
    return re.fullmatch(f"[0-9a-f]{{{2 * ID_BYTES}}}", text) is not None


def new_id() -> str:
    """An opaque id of 16 hexadecimal digits."""
    return secrets.token_hex(ID_BYTES)
