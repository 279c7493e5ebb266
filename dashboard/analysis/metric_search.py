"""Finding series among many: by a regular expression, the pinned ones first."""

import re
from collections.abc import Sequence


class PatternError(Exception):
    """What is wrong with a regular expression."""


def matching(keys: Sequence[str], pattern: str, pinned: Sequence[str]) -> list[str]:
    """The ``keys`` in which the pattern is found, in any case, the ``pinned`` ones first. PatternError if it is none."""
    try:
        found = [key for key in keys if re.search(pattern, key, re.IGNORECASE)]
    except re.error as error:
        raise PatternError(str(error)) from None
    return sorted(found, key=lambda key: (key not in pinned, keys.index(key)))
