"""Names in the order in which people count: ``layer 2`` before ``layer 10``."""

import re


def natural_order(name: str) -> list[str | int]:
    """What to sort by: text and whole numbers in turn, text first."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
