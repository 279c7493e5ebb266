"""What can be submitted."""

from typing import Any

from fastapi import APIRouter

from backend.services.runs.presets import presets
from engine.config import RunConfig
from engine.models.library import known_models
from longtail.schemas.base import Items
from longtail.schemas.models import Model
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


@router.get("/models")
def list_models() -> Items[Model]:
    """Models that a run can name as model.path: built-in ones, and those of ``longtail models`` on the host of the API. A worker on
    another host has them if it shares LONGTAIL_HOME."""
    return Items[Model].of(known_models())
