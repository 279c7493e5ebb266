"""Query parameters that nobody knows are errors, not typing mistakes that go unnoticed; 405 names every method there is."""

import re
from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.dependencies.models import Dependant

from backend.errors import InvalidError
from backend.schemas.base import FieldError

SIGNED = "link"


async def known_parameters(request: Request) -> None:
    """Runs before every route."""
    known = _named(request.scope["route"].dependant) | {SIGNED}
    unknown = [FieldError(field=name, message="unknown parameter") for name in request.query_params if name not in known]
    if unknown:
        raise InvalidError("the request is not valid", unknown)


def _named(dependant: Dependant) -> set[str]:
    return {parameter.alias for parameter in dependant.query_params}.union(*map(_named, dependant.dependencies))


def methods(app: FastAPI, path: str) -> Sequence[str]:
    """What ``path`` can be asked, also where several routes share it."""
    paths = app.openapi()["paths"]
    patterns = {template: re.sub(r"\{[^}]+\}", "[^/]+", template) for template in paths}
    fitting = [path] if path in paths else [template for template, pattern in patterns.items() if re.fullmatch(pattern, path)]
    return [method.upper() for template in fitting for method in paths[template]]
