"""Is a configuration one that can run? Every fault is named by its field."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from backend.errors import InvalidError
from backend.services.runs.operator_limits import beyond_limits
from backend.settings import Settings
from engine.config import RunConfig, describe
from engine.errors import LongtailError
from engine.preflight import check_light
from longtail.schemas.base import FieldError
from longtail.schemas.identity import Role

FIELD_OF_CODE = {"model": "model.path", "data": "task.path"}


def validated_config(data: Mapping[str, Any], settings: Settings, role: Role) -> RunConfig:
    """The configuration that ``data`` says, of somebody with that role; InvalidError with all its faults."""
    try:
        config = RunConfig.model_validate(data)
        check_limits(config, settings, role)  # first, as what check_light says tells of the files
        check_light(config)
    except ValidationError as error:
        raise InvalidError("the configuration is not valid", field_errors(error.errors(), data)) from None
    except LongtailError as error:
        raise InvalidError("the configuration cannot run", [_named(error)]) from None
    return config


def known_config(data: Mapping[str, Any]) -> RunConfig:
    """The configuration of a run that is there already; InvalidError if an earlier version took it, and this one does not."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        message = "the configuration is of an earlier version: submit it anew, without what this one does not know"
        raise InvalidError(message, field_errors(error.errors(), data)) from None


def check_limits(config: RunConfig, settings: Settings, role: Role) -> None:
    """InvalidError if the configuration goes beyond what the operator allows."""
    if faults := beyond_limits(config, settings, role):
        raise InvalidError("the configuration names what is not allowed here", faults)


def field_errors(faults: Iterable[Any], data: Any) -> list[FieldError]:
    """pydantic's faults with ``data`` in plain words."""
    told = (describe({**fault, "loc": _place(fault["loc"], data)}).partition(": ") for fault in faults)
    return [FieldError(field=field, message=message) for field, _, message in told]


def _named(error: LongtailError) -> FieldError:
    """The error under the field that it begins with, or else under the one that errors of its kind come from."""
    field, colon, message = str(error).partition(": ")
    if colon and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", field) and field.split(".")[0] in RunConfig.model_fields:
        return FieldError(field=field, message=message)
    return FieldError(field=FIELD_OF_CODE.get(error.code, "config"), message=str(error))


def _place(location: tuple[str | int, ...], data: Any) -> tuple[str | int, ...]:
    """``location`` without the tags of discriminated unions, which pydantic puts between a field and its parts."""
    place: list[str | int] = []
    for part in location:
        is_tag = isinstance(data, dict) and part not in data and data.get("name") == part
        if is_tag:
            continue
        place.append(part)
        data = data[part] if isinstance(data, dict) and part in data else None
    return tuple(place)
