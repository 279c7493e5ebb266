"""Query parameters that nobody knows are errors, not typing mistakes that go unnoticed."""

from fastapi import Request
from fastapi.dependencies.models import Dependant

from backend.errors import InvalidError
from longtail.schemas.base import FieldError

SIGNED = "link"


async def refuse_unknown_parameters(request: Request) -> None:
    """Runs before every route."""
    known = _named(request.scope["route"].dependant) | {SIGNED}
    unknown = [FieldError(field=name, message="unknown parameter") for name in request.query_params if name not in known]
    if unknown:
        raise InvalidError("the request is not valid", unknown)


def _named(dependant: Dependant) -> set[str]:
    return {parameter.alias for parameter in dependant.query_params}.union(*map(_named, dependant.dependencies))
