"""What a run has reported so far."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from backend import models
from backend.api.dependencies import LAST_LINE, Cursor, Limit, LineId, ReadSession, RunDep, SinceStep, StepRangeDep
from backend.api.error_responses import documented
from backend.services.artifacts import listing
from backend.services.telemetry import log_lines, metric_series, step_rows
from backend.services.telemetry.metric_series import downsampled
from backend.services.telemetry.run_statistics import run_statistics
from backend.services.telemetry.step_rows import SampleFilter
from longtail.schemas.artifacts import RunArtifactPage
from longtail.schemas.base import Items, Schema, StepItems
from longtail.schemas.run_statistics import RunStatistics
from longtail.schemas.telemetry import (
    Decoding,
    DrafterSession,
    Lengths,
    Level,
    LogLine,
    MetricKey,
    Metrics,
    Outcome,
    PretrainingRounds,
    SampleItem,
    SpeculationStep,
    WorkerSpan,
)

POINTS = 1000
MOST_POINTS = 10_000
NARROW_ROWS, WIDE_ROWS = 10_000, 1000
IN_PARTS = "The first steps, about a thousand rows or more at a time; next_since_step, as since_step, asks for what comes after them."

router = APIRouter(prefix="/runs/{run_id}", tags=["telemetry"], responses=documented(404))


@router.get("/metrics")
def metrics(
    run: RunDep,
    session: ReadSession,
    keys: Annotated[str | None, Query(max_length=2000, pattern=r"^[^\x00]*$", description="Comma-separated; all if left out")] = None,
    prefix: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$", description="Only keys that begin so")] = "",
    since_step: SinceStep = -1,
    points: Annotated[int, Query(ge=1, le=MOST_POINTS, description="At most, of a series; a longer one comes as an envelope")] = POINTS,
) -> Metrics:
    """Series by key. A step's duration is step_seconds, its phases are phase/rollout and so on. Of very many series each comes in
    fewer points."""
    wanted = [key for key in (keys or "").split(",") if key]
    return Metrics(series=downsampled(session, run.id, wanted, since_step, points, prefix))


@router.get("/metrics/keys")
def metric_keys(run: RunDep, session: ReadSession) -> Items[MetricKey]:
    """The run's series: where each begins and ends, its latest value, and of how many points it is."""
    return Items(items=metric_series.metric_keys(session, run.id))


def _of_steps(name: str, rows: type[models.Stepped], schema: type[Schema], about: str, most: int = WIDE_ROWS) -> None:
    """The route /``name``, which gives the ``rows`` of the steps asked for, about ``most`` at a time."""
    reply: type[StepItems[Any]] = StepItems[schema]  # type: ignore[valid-type]

    def find(run: RunDep, session: ReadSession, step_range: StepRangeDep) -> Any:
        items, last = step_rows.rows_of_steps(session, rows, run.id, step_range, most)
        return reply.model_validate({"items": items, "next_since_step": last})

    router.get(f"/{name}", name=name, description=f"{about} {IN_PARTS}", response_model=reply)(find)


_of_steps("lengths", models.Rollout, Lengths, "Response lengths of each step.")
_of_steps("spans", models.WorkerSpan, WorkerSpan, "The workers' timeline.", NARROW_ROWS)
_of_steps("decoding", models.Decoding, Decoding, "Running requests and strategies of each worker over the time of each step.")
_of_steps("speculation", models.Speculation, SpeculationStep, "Use of the strategies and acceptance by draft position.")
_of_steps("drafters", models.DrafterSession, DrafterSession, "Spot-training sessions of the drafter.")


@router.get("/pretraining")
def pretraining(
    run: RunDep,
    session: ReadSession,
    since_round: Annotated[int, Query(ge=-1, le=LAST_LINE, description="Only rounds after this one; -1: all")] = -1,
    every: Annotated[int, Query(ge=1, le=2**20, description="Only rounds that are multiples of it")] = 1,
) -> PretrainingRounds:
    """The rounds in which the drafter was trained before the first step, a thousand at a time; next_since_round, as since_round, asks for
    what comes after them. The run itself holds the latest."""
    items, last = step_rows.pretraining_rounds(session, run.id, since_round, every, WIDE_ROWS)
    return PretrainingRounds.model_validate({"items": items, "next_since_round": last})


@router.get("/samples")
def samples(
    run: RunDep,
    session: ReadSession,
    since_step: SinceStep = -1,
    step: Annotated[int | None, Query(ge=0, le=LAST_LINE, description="Only those of this step")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    outcome: Annotated[Outcome | None, Query(description="Only those whose reward is 1 or more, or less, or that were cut")] = None,
    contains: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$", description="Only with this text, in any case")] = "",
    prompt: Annotated[str | None, Query(max_length=20_000, pattern=r"^[^\x00]*$", description="Only those of exactly this prompt")] = None,
    longest: Annotated[bool, Query(description="The longest responses rather than the latest")] = False,
) -> Items[SampleItem]:
    """The latest responses, or the longest, oldest first, and what drafted their tokens. Without a step, an outcome, a text, a prompt and
    the longest are looked for among the run's latest 10,000 responses."""
    wanted = SampleFilter(since_step, step, outcome, contains, prompt, longest)
    return Items[SampleItem].of(step_rows.samples(session, run.id, wanted, limit))


@router.get("/logs")
def logs(
    run: RunDep,
    session: ReadSession,
    since: LineId = 0,
    before: Annotated[int | None, Query(ge=0, le=LAST_LINE, description="Only lines with a lower id")] = None,
    tail: Annotated[int | None, Query(ge=1, le=log_lines.LOG_LINES, description="Only the last so many")] = None,
    level: Annotated[list[Level] | None, Query(max_length=4, description="Only lines of these levels")] = None,
    contains: Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$", description="Only lines with this text, in any case")] = "",
) -> Items[LogLine]:
    """Log lines and alarms, oldest first, at most 1000 at a time: the first ones, or with ``tail`` the last ones."""
    return Items[LogLine].of(log_lines.log_lines(session, run.id, since, before, tail, level or (), contains))


@router.get("/statistics")
def statistics(run: RunDep, session: ReadSession) -> RunStatistics:
    """What all steps that are done come to, exactly, however long the run is."""
    return run_statistics(session, run)


@router.get("/artifacts")
def artifacts(run: RunDep, session: ReadSession, limit: Limit = 50, cursor: Cursor = None) -> RunArtifactPage:
    """Files to download, oldest first."""
    return RunArtifactPage.from_rows(listing.artifacts_of_run(session, run.id, limit, cursor))
