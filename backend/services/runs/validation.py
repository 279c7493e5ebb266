"""Is a configuration one that can run? Every fault is named by its field."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from backend.errors import InvalidError
from backend.settings import Settings
from engine.config import RunConfig, describe, own_code
from engine.errors import LongtailError
from engine.preflight import check_light
from longtail.schemas.base import FieldError

FORBIDDEN = "code of your own is not run here; whoever operates this installation may allow it with LONGTAIL_OWN_CODE=true"
FIELD_OF_CODE = {"model": "model.path", "data": "task.path"}


def validated_config(data: Mapping[str, Any], settings: Settings) -> RunConfig:
    """The configuration that ``data`` says; InvalidError with all its faults."""
    try:
        config = RunConfig.model_validate(data)
        check_light(config)
    except ValidationError as error:
        raise InvalidError("the configuration is not valid", field_errors(error.errors(), data)) from None
    except LongtailError as error:
        raise InvalidError("the configuration cannot run", [_named(error)]) from None
    if not settings.own_code and (fields := own_code(config)):
        raise InvalidError("the configuration runs code of its own", [FieldError(field=name, message=FORBIDDEN) for name in fields])
    return config


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
