"""Which drafters of the platform a run may begin with, where its drafter.path is auto."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.models import Artifact, Run
from backend.models.runs import GENERATED
from engine.config import RunConfig
from engine.preflight import fits, of_other_kinds

AUTO = "auto"
UNTRAINED = "0"
"""The version of what a run began with."""


class _Saved(NamedTuple):
    """``taken``: the artifact that auto stood for in its run, empty or None without."""

    details: Mapping[str, str]
    made_at: float
    taken: str | None


def wants_one(config: Mapping[str, Any]) -> bool:
    """Whether the drafter is to be looked for."""
    return bool(config["drafter"]["path"] == AUTO and config["speculation"]["enabled"])


def fitting_drafters(session: Session, project_id: str, config: RunConfig) -> list[str]:
    """Ids of artifacts, the newest first: drafters for the run's model, of its recipe's kind, by runs of its project that succeeded. Those
    of other projects its members may not see. What a run took and left untrained is as old as what it took, and comes behind that."""
    done = (Run.kind == "engine", Run.state == "succeeded", Run.deleted_at.is_(None), ~Run.id.endswith(GENERATED))
    here = (Artifact.type == "drafter", Artifact.missing_since.is_(None), Run.project_id == project_id)
    columns = (Artifact.id, Artifact.details, Artifact.created_at, Run.drafter_id)
    rows = session.execute(select(*columns).join(Run).where(*here, *done))
    fitting = {artifact_id: _Saved(details, made_at, taken) for artifact_id, details, made_at, taken in rows if fits(details, config)}
    return sorted(fitting, key=lambda artifact_id: (-_trained_at(artifact_id, fitting), fitting[artifact_id].made_at, artifact_id))


def fitting_recipes(session: Session, project_id: str, config: RunConfig) -> list[str]:
    """Recipes of another kind with which the run would find drafters."""
    return [changed.drafter.recipe for changed in of_other_kinds(config) if fitting_drafters(session, project_id, changed)]


def _trained_at(artifact_id: str, known: Mapping[str, _Saved]) -> float:
    """When it was made, or what it is a copy of."""
    saved = known[artifact_id]
    is_copy = saved.details.get("drafter_version") == UNTRAINED and saved.taken in known
    return _trained_at(saved.taken, known) if is_copy and saved.taken else saved.made_at
