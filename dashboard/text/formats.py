"""Numbers, times and names as people read them."""

from datetime import datetime

MISSING = "–"
SPACE = "\N{NO-BREAK SPACE}"
"""Between a number and its unit: a line that is too narrow for both breaks before the number."""


def typeable(text: str) -> str:
    """With the space that keyboards have between a number and its unit: for a grid, which breaks no line, and whose cells are searched,
    copied and downloaded."""
    return text.replace(SPACE, " ")


def words(key: str) -> str:
    """``drafter_version`` as people write it."""
    return key.replace("_", " ")


def short(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float | None, digits: int = 2) -> str:
    return MISSING if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 0) -> str:
    return MISSING if value is None else f"{100 * value:.{digits}f}{SPACE}%"


def count(number: int, thing: str) -> str:
    """``1 run``, ``1,200 runs``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def last_steps(number: int) -> str:
    """``last step``, ``last 5 steps``."""
    return "last step" if number == 1 else f"last {number:,} steps"


def every(number: int) -> str:
    """``every step``, ``every 8th step``."""
    return "every step" if number == 1 else f"every {number}{'nd' if number == 2 else 'th'} step"


def ratio(value: float | None) -> str:
    """A ratio: ``1.82×``."""
    return MISSING if value is None else f"{value:.2f}×"


def duration(seconds: float | None) -> str:
    """Two units at most: ``4.2 ms``, ``0.42 s``, ``12.3 s``, ``4 min 5 s``, ``2 h 13 min``, ``3 d 4 h``."""
    if seconds is None:
        return MISSING
    if seconds < 60:
        if seconds >= 59.95:
            return duration(60)
        if 0 < seconds < 0.01:
            return f"{1000 * seconds:.2g}{SPACE}ms"
        return f"{seconds:.2f}{SPACE}s" if seconds < 9.995 else f"{seconds:.1f}{SPACE}s"
    whole = round(seconds)
    for unit, size, minor, minor_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            return f"{whole // size}{SPACE}{unit} {whole % size // minor_size}{SPACE}{minor}"
    return f"{whole // 60}{SPACE}min {whole % 60}{SPACE}s"


def ago(moment: datetime, now: datetime) -> str:
    """``just now``, ``5 min ago``, ``3 h ago``, ``2 d ago``."""
    seconds = (now - moment).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{SPACE}{unit} ago"
    return "just now"


def size(count: int) -> str:
    """Bytes in decimal units: ``50.0 kB``."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f}{SPACE}B" if unit == "B" else f"{value:.1f}{SPACE}{unit}"
        value /= 1000
    return f"{value:.1f}{SPACE}GB"
