"""What a run has reported so far."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend import models
from backend.api.deps import LAST_LINE, LineId, Reading, RunDep, SinceStep, StretchDep
from backend.api.problems import documented
from backend.schemas.artifacts import Artifact
from backend.schemas.base import Items
from backend.schemas.telemetry import (
    Decoding,
    DrafterSession,
    Lengths,
    Level,
    LogLine,
    MetricKey,
    Metrics,
    SampleItem,
    Span,
    SpeculationStep,
)
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
    prefix: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$", description="Only keys that begin so")] = "",
    since_step: SinceStep = -1,
    points: Annotated[int, Query(ge=1, le=MOST_POINTS, description="At most, of a series; a longer one comes as an envelope")] = POINTS,
) -> Metrics:
    """Series by key. A step's duration is step_seconds, its phases are phase/rollout and so on. Of very many series each comes in
    fewer points."""
    wanted = [key for key in (keys or "").split(",") if key]
    return Metrics(series=thinned(session, run.id, wanted, since_step, points, prefix))


@router.get("/metrics/keys")
def metric_keys(run: RunDep, session: Reading) -> Items[MetricKey]:
    """The run's series: where each begins and ends, its latest value, and of how many points it is."""
    return Items(items=overview(session, run.id))


@router.get("/lengths")
def lengths(run: RunDep, session: Reading, stretch: StretchDep) -> Items[Lengths]:
    """Response lengths of each step."""
    return Items[Lengths].of(telemetry.stepped(session, models.Rollout, run.id, stretch))


@router.get("/spans")
def spans(run: RunDep, session: Reading, stretch: StretchDep) -> Items[Span]:
    """The workers' timeline."""
    return Items[Span].of(telemetry.stepped(session, models.Span, run.id, stretch))


@router.get("/decoding")
def decoding(run: RunDep, session: Reading, stretch: StretchDep) -> Items[Decoding]:
    """Running requests and strategies of each worker over the time of each step."""
    return Items[Decoding].of(telemetry.stepped(session, models.Decoding, run.id, stretch))


@router.get("/speculation")
def speculation(run: RunDep, session: Reading, stretch: StretchDep) -> Items[SpeculationStep]:
    """Use of the strategies and acceptance by draft position."""
    return Items[SpeculationStep].of(telemetry.stepped(session, models.Speculation, run.id, stretch))


@router.get("/drafters")
def drafters(run: RunDep, session: Reading, stretch: StretchDep) -> Items[DrafterSession]:
    """Spot-training sessions of the drafter."""
    return Items[DrafterSession].of(telemetry.stepped(session, models.DrafterSession, run.id, stretch))


@router.get("/samples")
def samples(
    run: RunDep,
    session: Reading,
    since_step: SinceStep = -1,
    step: Annotated[int | None, Query(ge=0, le=LAST_LINE, description="Only those of this step")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Items[SampleItem]:
    """The latest responses, oldest first, and what drafted their tokens."""
    return Items[SampleItem].of(telemetry.samples(session, run.id, since_step, limit, step))


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
    return Items[LogLine].of(telemetry.logs(session, run.id, since, before, tail, level or (), contains))


@router.get("/artifacts")
def artifacts(run: RunDep, session: Reading) -> Items[Artifact]:
    """Files to download, oldest first."""
    return Items[Artifact].of(telemetry.artifacts(session, run.id))
