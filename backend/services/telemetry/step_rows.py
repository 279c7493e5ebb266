"""What a run has reported of its steps so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, Select, func, or_, select
from sqlalchemy.orm import Session, aliased

from backend.models import PretrainingRound, Sample, Stepped
from longtail.schemas.telemetry import RIGHT, SEARCHED_SAMPLES, Outcome

LAST_STEP = 2**31 - 1


class StepRange(NamedTuple):
    """Steps after ``since`` up to ``until``. A long run is cut at the multiples of ``every``: of each part only the first step that there
    is something of."""

    since: int = -1
    until: int = LAST_STEP
    every: int = 1


def rows_of_steps(
    session: Session, model: type[Stepped], run_id: str, step_range: StepRange, most: int
) -> tuple[Sequence[Row[Any]], int | None]:
    """The first rows of ``model`` in the order of their steps, and the step after which to go on, None if these are all. They are those of
    whole steps: at most ``most``, unless a single step has more."""
    inside = [model.run_id == run_id, model.step > step_range.since, model.step <= step_range.until]
    if step_range.every > 1:
        inside.append(model.step.in_(_first_steps(model, run_id, step_range)))
    last = _last_step(session, model, inside, most)
    if last is not None:
        inside.append(model.step <= last)
    query = select(*model.__table__.columns).where(*inside)
    return session.execute(query.order_by(model.step, *model.__table__.primary_key)).all(), last


def _first_steps(model: type[Stepped], run_id: str, step_range: StepRange) -> Select[int]:
    """Also of the part in which ``since`` is."""
    row = aliased(model)
    near = (row.run_id == run_id, row.step > step_range.since - step_range.every, row.step <= step_range.until)
    return select(func.min(row.step)).where(*near).group_by(row.step // step_range.every)


def _last_step(session: Session, model: type[Stepped], inside: Sequence[ColumnElement[bool]], most: int) -> int | None:
    """The last whose rows, and those before, are at most ``most``; None if all are."""
    beyond = session.scalar(select(model.step).where(*inside).order_by(model.step).offset(most).limit(1))
    if beyond is None:
        return None
    before = session.scalar(select(func.max(model.step)).where(*inside, model.step < beyond))
    return beyond if before is None else before


def pretraining_rounds(session: Session, run_id: str, since: int, every: int, most: int) -> tuple[Sequence[PretrainingRound], int | None]:
    """The first ``most`` after round ``since`` that are multiples of ``every``, and after which one to go on, None if these are all."""
    query = select(PretrainingRound).where(PretrainingRound.run_id == run_id, PretrainingRound.round > since)
    if every > 1:
        query = query.where(PretrainingRound.round % every == 0)
    found = session.scalars(query.order_by(PretrainingRound.round).limit(most + 1)).all()
    return found[:most], found[most - 1].round if len(found) > most else None


@dataclass(frozen=True)
class SampleFilter:
    """Which samples: after ``since_step``, of one ``step``, with an ``outcome``, with a text in prompt or response, of one ``prompt``; and
    the ``longest`` responses rather than the latest."""

    since_step: int = -1
    step: int | None = None
    outcome: Outcome | None = None
    contains: str = ""
    prompt: str | None = None
    longest: bool = False

    @property
    def is_search(self) -> bool:
        """Whether responses must be looked at to know which are wanted, in all of the run."""
        looks = self.outcome is not None or self.prompt is not None or bool(self.contains) or self.longest
        return looks and self.step is None


def samples(session: Session, run_id: str, wanted: SampleFilter, limit: int) -> Sequence[Sample]:
    """The latest, or the longest, ``limit``, oldest first. Where no index knows which are wanted, they are looked for among the latest
    SEARCHED_SAMPLES."""
    query = select(Sample).where(Sample.run_id == run_id, Sample.step > wanted.since_step)
    if wanted.step is not None:
        query = query.where(Sample.step == wanted.step)
    if wanted.outcome == "truncated":
        query = query.where(Sample.truncated.is_(True))
    elif wanted.outcome is not None:
        query = query.where(Sample.reward >= RIGHT if wanted.outcome == "right" else Sample.reward < RIGHT)
    if wanted.contains:
        texts = (Sample.prompt, Sample.response)
        query = query.where(or_(*(text.icontains(wanted.contains, autoescape=True) for text in texts)))
    if wanted.prompt is not None:
        query = query.where(Sample.prompt == wanted.prompt)
    if wanted.is_search and (first := _first_searched(session, run_id)) is not None:
        query = query.where(Sample.step >= first)
    length = func.coalesce(Sample.tokens, func.length(Sample.response))
    order = [length.desc(), Sample.seq.desc()] if wanted.longest else [Sample.step.desc(), Sample.seq.desc()]
    return sorted(session.scalars(query.order_by(*order).limit(limit)), key=lambda sample: sample.seq)


def _first_searched(session: Session, run_id: str) -> int | None:
    """The step of the first of the latest SEARCHED_SAMPLES; None if there are not so many."""
    query = select(Sample.step).where(Sample.run_id == run_id).order_by(Sample.step.desc(), Sample.seq.desc())
    return session.scalar(query.offset(SEARCHED_SAMPLES - 1).limit(1))
