"""Every error leaves as RFC 9457 problem+json of one shape."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from backend.errors import RequestError
from backend.services.runs.validation import field_errors
from longtail.schemas.base import FieldError, Problem

MEDIA_TYPE = "application/problem+json"


def problem(status: int, detail: str, title: str = "", errors: Sequence[FieldError] = (), headers: Any = None) -> JSONResponse:
    body = Problem(title=title or HTTPStatus(status).phrase, status=status, detail=detail, errors=list(errors))
    return JSONResponse(body.model_dump(mode="json"), status, headers=headers, media_type=MEDIA_TYPE)


Responses = dict[int | str, dict[str, Any]]


def documented(*statuses: int) -> Responses:
    """OpenAPI's ``responses`` for errors of these statuses."""
    return {status: {"model": Problem, "description": HTTPStatus(status).phrase} for status in statuses}


def install(app: FastAPI) -> None:
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def refusal(error: RequestError) -> JSONResponse:
    return problem(error.status, error.detail, error.title, error.errors, error.headers)


def _refused(_: Request, error: Any) -> JSONResponse:
    return refusal(error)


def _invalid(_: Request, error: Any) -> JSONResponse:
    faults = error.errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        return problem(400, f"the body is not JSON: {faults[0]['ctx']['error']}")
    parts = [{**fault, "loc": fault["loc"][1:] or fault["loc"]} for fault in faults]
    return problem(422, "the request is not valid", "Invalid request", field_errors(parts, error.body))


def _http(request: Request, error: Any) -> JSONResponse:
    headers = error.headers
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"allow": ", ".join(_methods(request.app, request.url.path))}
    return problem(error.status_code, str(error.detail), headers=headers)


def _methods(app: FastAPI, path: str) -> Sequence[str]:
    """What ``path`` can be asked, also where several routes share it."""
    paths = app.openapi()["paths"]
    patterns = {template: re.sub(r"\{[^}]+\}", "[^/]+", template) for template in paths}
    fitting = [path] if path in paths else [template for template, pattern in patterns.items() if re.fullmatch(pattern, path)]
    methods = [method.upper() for template in fitting for method in paths[template]]
    return [*methods, "HEAD"] if "GET" in methods else methods
