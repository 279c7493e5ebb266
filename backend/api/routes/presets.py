"""What can be submitted."""

from typing import Any

from fastapi import APIRouter

from backend.services.runs.presets import presets
from engine.config import RunConfig
from longtail.schemas.base import Items
from longtail.schemas.runs import Preset

router = APIRouter(tags=["configuration"])


@router.get("/schema")
def schema() -> dict[str, Any]:
    """JSON schema of a run's configuration."""
    return RunConfig.model_json_schema()


@router.get("/presets")
def list_presets() -> Items[Preset]:
    """Configurations to start from, with every default filled in."""
    return Items(items=presets())
