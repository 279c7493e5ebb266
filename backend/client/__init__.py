"""The REST API for Python programs; the CLI and the dashboard are built on it."""

from backend.client.longtail import Longtail
from backend.client.transport import ApiError

__all__ = ["ApiError", "Longtail"]
