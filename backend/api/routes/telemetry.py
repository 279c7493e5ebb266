"""What a run has reported so far."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.deps import LAST_LINE, LineId, Reading, RunDep, SinceStep
from backend.api.problems import documented
from backend.schemas.artifacts import Artifact
from backend.schemas.base import Items
from backend.schemas.telemetry import DrafterSession, Lengths, Level, LogLine, MetricKey, Metrics, SampleItem, Span, SpeculationStep
from backend.services import telemetry
from backend.services.metrics import overview, thinned

POINTS = 1000
MOST_POINTS = 10_000

router = APIRouter(prefix="/runs/{run_id}", tags=["telemetry"], responses=documented(404))


@router.get("/metrics")
def metrics(
    run: RunDep,
    session: Reading,
    keys: Annotated[str | None, Query(max_length=2000, pattern=r"^[^\x00]*$", description="Comma-separated; all if left out")] = None,
    since_step: SinceStep = -1,
    points: Annotated[int, Query(ge=1, le=MOST_POINTS, description="At most, of a series; a longer one comes as an envelope")] = POINTS,
) -> Metrics:
    """Series by key. A step's duration is step_seconds, its phases are phase/rollout and so on. Of very many series each comes in
    fewer points."""
    wanted = [key for key in (keys or "").split(",") if key]
    return Metrics(series=thinned(session, run.id, wanted, since_step, points))


@router.get("/metrics/keys")
def metric_keys(run: RunDep, session: Reading) -> Items[MetricKey]:
    """The run's series: where each begins and ends, its latest value, and of how many points it is."""
    return Items(items=overview(session, run.id))


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
    run: RunDep,
    session: Reading,
    since: LineId = 0,
    before: Annotated[int | None, Query(ge=0, le=LAST_LINE, description="Only lines with a lower id")] = None,
    tail: Annotated[int | None, Query(ge=1, le=telemetry.LOG_LINES, description="Only the last so many")] = None,
    level: Annotated[list[Level] | None, Query(max_length=4, description="Only lines of these levels")] = None,
    contains: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$", description="Only lines with this text, in any case")] = "",
) -> Items[LogLine]:
    """Log lines and alarms, oldest first, at most 1000 at a time: the first ones, or with ``tail`` the last ones."""
    found = telemetry.logs(session, run.id, since, before, tail, level or (), contains)
    return Items(items=[LogLine.model_validate(row) for row in found])


@router.get("/artifacts")
def artifacts(run: RunDep, session: Reading) -> Items[Artifact]:
    """Files to download, oldest first."""
    return Items(items=[Artifact.model_validate(row) for row in telemetry.artifacts(session, run.id)])
