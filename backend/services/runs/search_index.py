"""Keeps what runs are found by. A row for each value lets one index answer any filter and any order: lists open no JSON text, and
never the table of metrics."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from backend.database import affected, storable_number, storable_text, upsert
from backend.models import Run, RunValue
from longtail.schemas.comparison import flat


def index_run(session: Session, run: Run) -> None:
    """Of a run that is new."""
    _write(session, run.id, [*flat(run.config, "config."), *_labels(run)])


def reindex_labels(session: Session, run: Run) -> None:
    """Of a run whose notes or tags have changed."""
    labels = RunValue.field.startswith("tags.", autoescape=True) | (RunValue.field == "notes")
    affected(session, delete(RunValue).where(RunValue.run_id == run.id, labels))
    _write(session, run.id, _labels(run))


def index_summary(session: Session, run_id: str, summary: Mapping[str, float | None]) -> None:
    """Of a run that has come further."""
    _write(session, run_id, flat(summary, "summary."))


def _write(session: Session, run_id: str, pairs: Iterable[tuple[str, Any]]) -> None:
    told = {storable_text(name): value for name, value in pairs}.items()
    upsert(session, RunValue, [{"field": name, "run_id": run_id, "text": _text(value), "number": _number(value)} for name, value in told])


def _labels(run: Run) -> list[tuple[str, Any]]:
    return [*((f"tags.{tag}", "") for tag in run.tags), *([("notes", run.notes)] if run.notes else [])]


def _text(value: Any) -> str:
    return storable_text(value if isinstance(value, str) else json.dumps(value))


def _number(value: Any) -> float | None:
    return storable_number(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None
