"""The REST API: thin routes over the services."""

from backend.api.app import create_app

__all__ = ["create_app"]
