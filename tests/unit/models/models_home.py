"""The folder that models with a name are kept in."""

from pathlib import Path


def left(models: Path) -> list[str]:
    """Names of all that is in it."""
    return sorted(each.name for each in models.iterdir()) if models.is_dir() else []
