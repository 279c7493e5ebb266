"""A configuration that is judged before it is submitted."""

from typing import Any

from pydantic import Field

from longtail.schemas.base import Body, FieldError, Schema
from longtail.schemas.comparison import ConfigDifference


class ConfigCheck(Body):
    """A configuration to check without submitting it. ``base`` is another one, such as a preset's, to tell how it differs from that."""

    config: dict[str, Any]
    base: dict[str, Any] | None = None


class Validation(Schema):
    """``config`` is a valid configuration with every default filled in, and ``differences`` are those from ``base``."""

    valid: bool
    errors: list[FieldError]
    config: dict[str, Any] | None = None
    differences: list[ConfigDifference] = Field(default_factory=list)
