"""Requests that the services refuse. The API turns each into a problem of its status."""

from collections.abc import Sequence

from backend.schemas import FieldError


class RequestError(Exception):
    status = 400
    title = "Bad request"

    def __init__(self, detail: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail)
        self.detail, self.errors = detail, list(errors)


class NotFoundError(RequestError):
    status, title = 404, "Not found"


class ConflictError(RequestError):
    status, title = 409, "Conflict"


class InvalidError(RequestError):
    status, title = 422, "Invalid request"


class NotReadyError(RequestError):
    status, title = 503, "Not ready"
