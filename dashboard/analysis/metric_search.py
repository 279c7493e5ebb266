"""Finding series among many: by a regular expression, the pinned ones first.

Arrow searches with RE2, which takes time by the length of a name only: Python's own may take years for ``(a+)+!``, and stops all pages.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.text.natural_order import natural_order


class PatternError(Exception):
    """What is wrong with a regular expression."""


def matching(keys: Sequence[str], pattern: str, pinned: Sequence[str]) -> list[str]:
    """The ``keys`` in which the pattern is found, in any case, the ``pinned`` ones first. PatternError if it is none."""
    try:
        is_found = pc.match_substring_regex(pa.array(keys, pa.string()), pattern, ignore_case=True)
    except pa.ArrowInvalid as error:
        raise PatternError(str(error).removeprefix("Invalid regular expression: ")) from None
    found = [key for key, matches in zip(keys, is_found.to_pylist(), strict=True) if matches]
    return sorted(found, key=lambda key: (key not in pinned, natural_order(key)))
