"""Requests that the services refuse. The API turns each into a problem of its status."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from longtail.schemas.base import FieldError


class RequestError(Exception):
    status = 400
    title = "Bad request"
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, detail: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail)
        self.detail, self.errors = detail, list(errors)


class UnauthorizedError(RequestError):
    status, title = 401, "Not logged in"
    headers = MappingProxyType({"www-authenticate": "Bearer"})


class ForbiddenError(RequestError):
    status, title = 403, "Forbidden"


class NotFoundError(RequestError):
    status, title = 404, "Not found"


class ConflictError(RequestError):
    status, title = 409, "Conflict"


class StaleError(RequestError):
    """The caller has seen an older state of what it wants to change."""

    status, title = 412, "Precondition failed"


class UnsupportedError(RequestError):
    status, title = 415, "Unsupported content"


class RangeError(RequestError):
    """Nothing of ``size`` bytes is in the range asked for."""

    status, title = 416, "Range not satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"the range lies outside of the {size} bytes that there are")
        self.headers = {"content-range": f"bytes */{size}"}


class InvalidError(RequestError):
    status, title = 422, "Invalid request"


class TooManyRequestsError(RequestError):
    status, title = 429, "Too many requests"

    def __init__(self, detail: str, seconds: float) -> None:
        super().__init__(detail)
        self.headers = {"retry-after": str(int(seconds) + 1)}


class NotReadyError(RequestError):
    status, title = 503, "Not ready"


class StorageFullError(RequestError):
    status, title = 507, "Insufficient storage"
