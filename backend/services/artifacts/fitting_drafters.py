"""Which drafters of the platform a run may begin with, where its drafter.path is auto."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.models import Artifact, Run
from backend.models.runs import GENERATED
from engine.drafter.kind import RECIPE_KINDS
from engine.models.folder import BUILT_IN

AUTO = "auto"


def wants_one(config: Mapping[str, Any]) -> bool:
    """Whether the drafter is to be looked for."""
    return bool(config["drafter"]["path"] == AUTO and config["speculation"]["enabled"])


def fitting_drafters(session: Session, run: Run) -> list[str]:
    """Ids of artifacts, the newest first: drafters for the run's model, of its recipe's kind, by runs of its project that succeeded. Those
    of other projects its members may not see."""
    done = (Run.kind == "engine", Run.state == "succeeded", Run.deleted_at.is_(None), ~Run.id.endswith(GENERATED))
    here = (Artifact.type == "drafter", Artifact.missing_since.is_(None), Run.project_id == run.project_id)
    query = select(Artifact.id, Artifact.details).join(Run).where(*here, *done).order_by(Artifact.created_at.desc(), Artifact.id)
    return [artifact_id for artifact_id, details in session.execute(query) if _fits(details, run.config)]


def _fits(details: Mapping[str, str], config: Mapping[str, Any]) -> bool:
    kind = RECIPE_KINDS.get(details.get("recipe", ""))
    model = details.get("base_model")
    return (
        kind == RECIPE_KINDS[config["drafter"]["recipe"]] and model is not None and _resolved(model) == _resolved(config["model"]["path"])
    )


def _resolved(model: str) -> str:
    return model if model in BUILT_IN else str(Path(model).resolve())
