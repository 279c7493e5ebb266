"""Which drafters of the platform a run may begin with, where its drafter.path is auto."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.models import Artifact, Run
from backend.models.runs import GENERATED
from engine.config import RunConfig
from engine.preflight import fits

AUTO = "auto"


def wants_one(config: Mapping[str, Any]) -> bool:
    """Whether the drafter is to be looked for."""
    return bool(config["drafter"]["path"] == AUTO and config["speculation"]["enabled"])


def fitting_drafters(session: Session, project_id: str, config: RunConfig) -> list[str]:
    """Ids of artifacts, the newest first: drafters for the run's model, of its recipe's kind, by runs of its project that succeeded. Those
    of other projects its members may not see."""
    done = (Run.kind == "engine", Run.state == "succeeded", Run.deleted_at.is_(None), ~Run.id.endswith(GENERATED))
    here = (Artifact.type == "drafter", Artifact.missing_since.is_(None), Run.project_id == project_id)
    query = select(Artifact.id, Artifact.details).join(Run).where(*here, *done).order_by(Artifact.created_at.desc(), Artifact.id)
    return [artifact_id for artifact_id, details in session.execute(query) if fits(details, config)]
