"""``longtail``: everything from a shell."""

from backend.cli.main import app

__all__ = ["app"]
