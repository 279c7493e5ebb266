"""A reward that differs from response to response, so that even a random model's policy moves at every step."""

from typing import Any


def reward(row: dict[str, Any], response: str) -> float:  # noqa: ARG001
    """The share of characters with an even code."""
    return sum(ord(character) % 2 == 0 for character in response) / max(1, len(response))
