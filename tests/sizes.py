"""How large the tests are: small ones by default, and all of them, at their full size, with ``make test-all`` (LONGTAIL_TESTS=all)."""

import os

ALL = os.environ.get("LONGTAIL_TESTS") == "all"
"""Whether every test runs at its full size, however long that takes."""


def examples(most: int) -> int:
    """Of a property: ``most`` of them at the full size, else a third."""
    return most if ALL else -(-most // 3)
