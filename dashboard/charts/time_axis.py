"""In which unit a chart shows times."""

UNITS = ((2 * 86400, 86400.0, "days"), (2 * 3600, 3600.0, "hours"), (300, 60.0, "minutes"), (0, 1.0, "seconds"))


def time_unit(longest: float) -> tuple[float, str]:
    """The seconds in it, and its name, on an axis that ends after ``longest`` seconds."""
    return next((seconds, unit) for least, seconds, unit in UNITS if longest >= least)
