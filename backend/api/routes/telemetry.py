"""What a run has reported so far."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.deps import Reading, RunDep, SinceStep
from backend.api.problems import documented
from backend.schemas.artifacts import Artifact
from backend.schemas.base import Items
from backend.schemas.telemetry import DrafterSession, Lengths, LogLine, Metrics, SampleItem, Span, SpeculationStep
from backend.services import telemetry

router = APIRouter(prefix="/runs/{run_id}", tags=["telemetry"], responses=documented(404))


@router.get("/metrics")
def metrics(
    run: RunDep,
    session: Reading,
    keys: Annotated[str | None, Query(max_length=2000, description="Comma-separated keys; all if left out")] = None,
    since_step: SinceStep = -1,
) -> Metrics:
    """Series by key. A step's duration is step_seconds, its phases are phase/rollout and so on."""
    wanted = [key for key in (keys or "").split(",") if key]
    return Metrics(series=telemetry.series(session, run.id, wanted, since_step))


@router.get("/lengths")
def lengths(run: RunDep, session: Reading, since_step: SinceStep = -1) -> Items[Lengths]:
    """Response lengths of each step."""
    return Items(items=[Lengths.model_validate(row) for row in telemetry.lengths(session, run.id, since_step)])


@router.get("/spans")
def spans(run: RunDep, session: Reading, since_step: SinceStep = -1) -> Items[Span]:
    """The workers' timeline."""
    return Items(items=[Span.model_validate(row) for row in telemetry.spans(session, run.id, since_step)])


@router.get("/speculation")
def speculation(run: RunDep, session: Reading, since_step: SinceStep = -1) -> Items[SpeculationStep]:
    """Use of the strategies and acceptance by draft position."""
    return Items(items=[SpeculationStep.model_validate(row) for row in telemetry.speculation(session, run.id, since_step)])


@router.get("/drafters")
def drafters(run: RunDep, session: Reading, since_step: SinceStep = -1) -> Items[DrafterSession]:
    """Spot-training sessions of the drafter."""
    return Items(items=[DrafterSession.model_validate(row) for row in telemetry.drafters(session, run.id, since_step)])


@router.get("/samples")
def samples(
    run: RunDep, session: Reading, since_step: SinceStep = -1, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> Items[SampleItem]:
    """The latest responses, oldest first."""
    return Items(items=[SampleItem.model_validate(row) for row in telemetry.samples(session, run.id, since_step, limit)])


@router.get("/logs")
def logs(
    run: RunDep, session: Reading, since: Annotated[int, Query(ge=0, le=2**31 - 1, description="Only lines with a higher id")] = 0
) -> Items[LogLine]:
    """Log lines and alarms, oldest first, at most 1000 at a time."""
    return Items(items=[LogLine.model_validate(row) for row in telemetry.logs(session, run.id, since)])


@router.get("/artifacts")
def artifacts(run: RunDep, session: Reading) -> Items[Artifact]:
    """Files to download, oldest first."""
    return Items(items=[Artifact.model_validate(row) for row in telemetry.artifacts(session, run.id)])
