"""How large the tests are: small ones by default, and all of them, at their full size, with ``make test-all`` (LONGTAIL_TESTS=all)."""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

Variant = TypeVar("Variant")

ALL = os.environ.get("LONGTAIL_TESTS") == "all"
"""Whether every test runs at its full size, however long that takes."""
SLOWNESS = int(os.environ.get("LONGTAIL_SLOWNESS", "1"))
"""How many times slower the browser of the tests is made: races that a busy machine shows now and then are seen at 4 at once."""


only_with_all = pytest.mark.skipif(not ALL, reason="make test-all runs it")
"""Of a test that takes long, and whose subject others show, too, in less time, or which little depends on."""


def examples(most: int) -> int:
    """Of a property: ``most`` of them at the full size, else a third."""
    return most if ALL else -(-most // 3)


def first(count: int, variants: Sequence[Variant]) -> Sequence[Variant]:
    """Of variants of a test that takes long: all at the full size, else the first, which are those that say most."""
    return variants if ALL else variants[:count]
