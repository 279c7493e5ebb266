"""Lists of runs: which ones, in which order, a page at a time.

Two queries: the first finds the page's ids in ix_runs_list and run_values alone, the second reads those runs. Whatever is chosen and
however it is sorted, the wide rows of all other runs stay unread.
"""

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from backend.models import Project, Run, RunValue, is_id
from backend.services.pagination import decode, encode

CONDITION = r"^((?:config|summary)\.[A-Za-z0-9_./-]{1,100})(<=|>=|!=|=|<|>)([^\x00]{0,200})$"
SORT = r"^-?(created|name|state|owner|duration|summary\.[A-Za-z0-9_./-]{1,100})$"
NEWEST = "-created"


def _unindexed(column: InstrumentedAttribute[Any]) -> ColumnElement[Any]:
    """Keeps SQLite from taking this column's own index, which would cost it a look at each row."""
    return column.concat("")


COLUMNS: dict[str, ColumnElement[Any]] = {
    "created": Run.created_at.expression,
    "name": Run.name.expression,
    "state": _unindexed(Run.state),
    "owner": _unindexed(Run.owner),
    "duration": (Run.finished_at - Run.started_at),
}
TEXTS = frozenset({"name", "state", "owner"})
NULL = "null"
"""The text of a value that is not known: neither more nor less than anything."""
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class RunFilter:
    """Which runs, and their order. ``projects`` are those that the caller may see. ``where``: conditions such as
    ``config.model.path=tiny`` or ``summary.reward_mean>0.5``; times are seconds since the epoch."""

    projects: Select[Any]
    runs: Sequence[str] = ()
    states: Sequence[str] = ()
    tags: Sequence[str] = ()
    owner: str | None = None
    q: str | None = None
    where: Sequence[str] = ()
    created_after: float | None = None
    created_before: float | None = None
    deleted: bool = False
    sort: str = NEWEST


def page_of_runs(session: Session, run_filter: RunFilter, limit: int, cursor: str | None) -> tuple[Sequence[Run], str | None]:
    """A page, and the cursor of the next one, None at the end. Runs that have no value to sort by come last, either way."""
    name, falls = run_filter.sort.removeprefix("-"), run_filter.sort.startswith("-")
    query, key = _sorted(name, falls)
    query = query.where(*_conditions(session, run_filter))
    if cursor is not None:
        _, value, run_id = decode(cursor, lambda values: _fits(values, run_filter.sort))
        query = query.where(_after(key, falls, value, run_id))
    found = session.execute(query.limit(limit + 1)).all()
    ids = [run_id for run_id, _ in found[:limit]]
    runs = {run.id: run for run in session.scalars(select(Run).where(Run.id.in_(ids)))}
    after = encode([run_filter.sort, found[limit - 1][1], ids[-1]]) if len(found) > limit else None
    return [runs[run_id] for run_id in ids if run_id in runs], after


def totals_by_state(session: Session, run_filter: RunFilter) -> dict[str, int]:
    """How many runs of the filter are in each state."""
    found = session.execute(select(Run.state, func.count()).where(*_conditions(session, run_filter)).group_by(Run.state))
    return {row[0]: row[1] for row in found}


def _sorted(name: str, falls: bool) -> tuple[Select[Any], ColumnElement[Any]]:
    if name in COLUMNS:
        key = COLUMNS[name]
        query = select(Run.id, key)
    else:
        value = aliased(RunValue)
        key = value.number.expression
        query = select(Run.id, key).outerjoin(value, and_(value.field == name, value.run_id == Run.id))
    order, then = (key.desc(), Run.id.desc()) if falls else (key.asc(), Run.id.asc())
    return query.order_by(order if name in ("created", "name", "state") else order.nulls_last(), then), key


def _after(key: ColumnElement[Any], falls: bool, value: Any, run_id: str) -> ColumnElement[bool]:
    """What comes after the run ``run_id`` with ``value``."""
    beyond = operator.lt if falls else operator.gt
    if value is None:
        return and_(key.is_(None), beyond(Run.id, run_id))
    return or_(beyond(key, value), and_(key == value, beyond(Run.id, run_id)), key.is_(None))


def _fits(values: list[Any], sort: str) -> bool:
    if len(values) != 3 or values[0] != sort or not (isinstance(values[2], str) and is_id(values[2])):
        return False
    value = values[1]
    if sort.removeprefix("-") in TEXTS:
        return value is None or (isinstance(value, str) and "\0" not in value and value.encode(errors="replace").decode() == value)
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _conditions(session: Session, run_filter: RunFilter) -> list[ColumnElement[bool]]:
    projects = session.scalars(run_filter.projects.with_only_columns(Project.id)).all()
    there = Run.deleted_at.is_not(None) if run_filter.deleted else Run.deleted_at.is_(None)
    conditions: list[ColumnElement[bool]] = [there, Run.project_id.in_(projects)]
    if run_filter.runs:
        conditions.append(Run.id.in_(run_filter.runs))
    if run_filter.states:
        conditions.append(COLUMNS["state"].in_(run_filter.states))
    if run_filter.owner is not None:
        conditions.append(COLUMNS["owner"] == run_filter.owner)
    if run_filter.created_after is not None:
        conditions.append(Run.created_at >= run_filter.created_after)
    if run_filter.created_before is not None:
        conditions.append(Run.created_at < run_filter.created_before)
    if run_filter.q:
        notes = select(RunValue.run_id).where(RunValue.field == "notes", RunValue.text.icontains(run_filter.q, autoescape=True))
        named = or_(Run.name.icontains(run_filter.q, autoescape=True), Run.id.startswith(run_filter.q, autoescape=True))
        conditions.append(or_(named, Run.id.in_(notes)))
    conditions += [_has(f"tags.{tag}") for tag in run_filter.tags]
    return conditions + [_meets(condition) for condition in run_filter.where]


def _has(field: str, *more: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(RunValue.field == field, RunValue.run_id == Run.id, *more).correlate(Run)


def _meets(condition: str) -> ColumnElement[bool]:
    parts = re.fullmatch(CONDITION, condition)
    assert parts is not None, "the route lets no other text through"
    field, sign, text = parts.groups()
    number = _number(text)
    if sign in COMPARISONS:
        compare = COMPARISONS[sign]
        if number is not None:
            return _has(field, compare(RunValue.number, number))
        return _has(field, RunValue.number.is_(None), RunValue.text != NULL, compare(RunValue.text, text))
    same = RunValue.text == text if number is None else or_(RunValue.text == text, RunValue.number == number)
    return _has(field, same) if sign == "=" else ~_has(field, same)


def _number(text: str) -> float | None:
    try:
        return value if math.isfinite(value := float(text)) else None
    except ValueError:
        return None
