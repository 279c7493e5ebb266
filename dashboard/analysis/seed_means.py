"""What runs of one seed are worth: together one observation, however often it is repeated."""

from collections.abc import Hashable, Iterable
from statistics import fmean
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def means_by(found: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """The mean of the values of each key, such as a seed, in the order in which the keys come first."""
    values: dict[Key, list[float]] = {}
    for key, value in found:
        values.setdefault(key, []).append(value)
    return {key: fmean(same) for key, same in values.items()}
