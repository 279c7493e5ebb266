"""The REST API for Python programs; the CLI and the dashboard are built on it."""

from longtail.client import Longtail
from longtail.transport import ApiError

__all__ = ["ApiError", "Longtail"]
