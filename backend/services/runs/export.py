"""Runs and their metrics as tables. Every batch is read in a transaction of its own: a slow reader holds nothing up."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from sqlalchemy import select, tuple_

from backend.database import Database
from backend.models import Metric, Run
from backend.services.runs.export_formats import Column
from backend.services.runs.listing import RunFilter, page_of_runs
from longtail.schemas.comparison import flat

PAGE = 200
POINTS = 20_000
"""Rows of a batch: about a megabyte."""

POINT_COLUMNS = (
    Column("run_id", "text"),
    Column("run", "text"),
    Column("key", "text"),
    Column("step", "integer"),
    Column("value", "number"),
)
_OWN = (
    *(Column(name, "text") for name in ("id", "name", "state", "project_id", "owner", "tags", "notes")),
    *(Column(name, "text") for name in ("created_at", "started_at", "finished_at", "parent_id", "error")),
    *(Column(name, "integer") for name in ("seed", "step", "steps", "attempt")),
)
_TIMES = frozenset({"created_at", "started_at", "finished_at"})


def run_columns(database: Database, run_filter: RunFilter) -> list[Column]:
    """Those that every run has, then each summary and configuration field that one of the chosen runs has."""
    numeric: dict[str, bool] = {}
    for runs in _pages(database, run_filter):
        for run in runs:
            for field, value in _leaves(run):
                if value is not None:
                    numeric[field] = numeric.get(field, True) and _is_number(value)
    return [*_OWN, *(Column(field, "number" if numbers else "text") for field, numbers in numeric.items())]


def run_rows(database: Database, run_filter: RunFilter, columns: Sequence[Column]) -> Iterator[list[list[Any]]]:
    """A row for each run, in the order of ``run_filter``; tags are joined by commas, times are ISO 8601."""
    for runs in _pages(database, run_filter):
        yield [[_cell(column, values.get(column.name)) for column in columns] for values in map(_flattened, runs)]


def points(database: Database, run_filter: RunFilter, keys: Sequence[str] = ()) -> Iterator[list[tuple[Any, ...]]]:
    """A row for each point of the chosen runs, run by run, by key and step; all keys, or ``keys``."""
    for runs in _pages(database, run_filter):
        for run in runs:
            after: tuple[str, int] = ("", -1)
            while found := _points(database, run.id, keys, after):
                yield [(run.id, run.name, *point) for point in found]
                after = found[-1][:2]


def _points(database: Database, run_id: str, keys: Sequence[str], after: tuple[str, int]) -> list[tuple[Any, ...]]:
    query = select(Metric.key, Metric.step, Metric.value).where(Metric.run_id == run_id, tuple_(Metric.key, Metric.step) > after)
    if keys:
        query = query.where(Metric.key.in_(keys))
    with database.read() as session:
        return [tuple(row) for row in session.execute(query.order_by(Metric.key, Metric.step).limit(POINTS))]


def _pages(database: Database, run_filter: RunFilter) -> Iterator[Sequence[Run]]:
    cursor: str | None = None
    while True:
        with database.read() as session:
            runs, cursor = page_of_runs(session, run_filter, PAGE, cursor)
        if runs:
            yield runs
        if cursor is None:
            return


def _leaves(run: Run) -> Iterator[tuple[str, Any]]:
    return chain(flat(run.summary, "summary."), flat(run.config, "config."))


def _flattened(run: Run) -> Mapping[str, Any]:
    own = {column.name: getattr(run, column.name) for column in _OWN}
    times = {name: datetime.fromtimestamp(own[name], UTC).isoformat() for name in _TIMES if own[name] is not None}
    return own | times | {"tags": ", ".join(run.tags)} | dict(_leaves(run))


def _cell(column: Column, value: Any) -> Any:
    if value is None or column.kind == "integer":
        return value
    if column.kind == "number":
        return float(value) if _is_number(value) else None
    return value if isinstance(value, str) else json.dumps(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
