"""In what two configurations differ."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from longtail.schemas.comparison import flat

NOT_SET = object()
"""Stands for a field that a configuration does not have."""


class Difference(NamedTuple):
    """A dotted field, and its value in each of the two."""

    field: str
    mine: Any
    other: Any


def config_differences(mine: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    """The fields that are not the same in both, in the order of ``mine``, then those that only ``other`` has."""
    left, right = dict(flat(mine)), dict(flat(other))
    pairs = ((field, left.get(field, NOT_SET), right.get(field, NOT_SET)) for field in left | right)
    return [Difference(*pair) for pair in pairs if pair[1] != pair[2]]


def one_line_yaml(value: Any) -> str:
    """As YAML in one line."""
    return "not set" if value is NOT_SET else yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
