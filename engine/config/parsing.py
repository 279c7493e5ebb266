"""From what users write to a RunConfig, with errors that name the field, what is wrong, and the value."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from engine.config.algorithm import SET_BY_NAME
from engine.config.run import RunConfig
from engine.config.yaml_text import read_yaml
from engine.errors import ConfigError

LONGEST_BITS, LONGEST_TEXT = 512, 200
SECTION_EXPECTED = frozenset({"model_type", "model_attributes_type", "dict_type"})


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the fields that ``changes`` names, section by section. Where they give a section another ``name``, what the old one
    stood for goes: all of the section, or, of an algorithm, the parts that its name sets."""
    return {**base, **{key: _merged(key, base.get(key), value) for key, value in changes.items()}}


def _merged(key: str, old: Any, new: Any) -> Any:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    if new.get("name", old.get("name")) == old.get("name"):
        return merged(old, new)
    return merged({part: value for part, value in old.items() if part not in SET_BY_NAME}, new) if key == "algorithm" else new


def parse(data: Any) -> RunConfig:
    """Validates ``data``; ConfigError lists every fault as ``field: what is wrong (got value)``."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(describe(fault) for fault in error.errors())) from None


def describe(fault: Any) -> str:
    """One fault of a pydantic ValidationError in a line: the field, what is wrong, the value."""
    field = ".".join(str(part) for part in fault["loc"]) or "config"
    if fault["type"] == "extra_forbidden":
        return f"{field}: unknown key; remove it or check its spelling"
    if fault["type"] == "union_tag_invalid":
        return f"{field}.name: there is no {fault['ctx']['tag']!r}; choose one of {fault['ctx']['expected_tags']}"
    if fault["type"] == "union_tag_not_found":
        return f"{field}.name: missing; it says which {field} this section is about"
    section = fault["type"] in SECTION_EXPECTED
    message = "has to be a section, with a line for each setting" if section else fault["msg"]
    message = message.removeprefix("Value error, ").replace("a valid tuple", "a list")
    return f"{field}: {message}{_got(fault['input'])}"


def _got(value: Any) -> str:
    """The beginning of a long value; nothing of a section, nor of a number that Python refuses to spell out, as YAML can have it."""
    if not isinstance(value, str | int | float | None) or (isinstance(value, int) and value.bit_length() > LONGEST_BITS):
        return ""
    shown = repr(value[:LONGEST_TEXT] + "..." if isinstance(value, str) and len(value) > LONGEST_TEXT else value)
    return f" (got {shown})"


def load(path: Path) -> RunConfig:
    """Reads a YAML file; ConfigError if it is missing, not YAML, or not a valid configuration."""
    if not path.is_file():
        raise ConfigError(f"{path}: {'a folder, not a file of a configuration' if path.is_dir() else 'no such file'}")
    try:
        data = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: also a date such as 2026-13-45
        raise ConfigError(f"{path}: not readable as YAML: {error}") from None
    return parse({} if data is None else data)
