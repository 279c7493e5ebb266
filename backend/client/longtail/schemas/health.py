"""Is it alive, can it work?"""

from typing import Literal

from longtail.schemas.base import Schema


class Health(Schema):
    status: Literal["ok"] = "ok"


class Readiness(Schema):
    status: Literal["ready"] = "ready"
    checks: dict[str, str]
