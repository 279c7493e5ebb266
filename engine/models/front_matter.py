"""The YAML at the head of a model card, by which hubs find a model."""

import math
from typing import Any

import yaml


def front_matter(**fields: Any) -> str:
    """With ``fields`` in the order given, whatever is in them."""
    return f"---\n{yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=math.inf)}---\n"
