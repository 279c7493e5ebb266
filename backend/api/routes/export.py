"""Tables to take away: runs, and their metrics."""

from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from backend.api.dependencies import ReadSession, UnauditedDatabase
from backend.api.error_responses import Responses, documented
from backend.api.run_filter import RunFilterDep
from backend.services.runs import export
from backend.services.runs.export_formats import FORMATS

Format = Annotated[Literal["csv", "json", "parquet"], Query(alias="format")]

TABLE: Responses = {200: {"description": "The table", "content": {kind.partition(";")[0]: {} for kind, _ in FORMATS.values()}}}

router = APIRouter(prefix="/export", tags=["export"], responses=TABLE | documented(404))


@router.get("/runs", response_class=StreamingResponse)
def export_runs(run_filter: RunFilterDep, session: ReadSession, database: UnauditedDatabase, form: Format = "csv") -> StreamingResponse:
    """A row for each chosen run: what it is, its summary.*, its config.*."""
    session.close()
    columns = export.run_columns(database, run_filter)
    return _sent("runs", form, FORMATS[form][1](columns, export.run_rows(database, run_filter, columns)))


@router.get("/metrics", response_class=StreamingResponse)
def export_metrics(
    run_filter: RunFilterDep,
    session: ReadSession,
    database: UnauditedDatabase,
    keys: Annotated[str | None, Query(max_length=2000, pattern=r"^[^\x00]*$", description="Comma-separated keys; all if left out")] = None,
    form: Format = "csv",
) -> StreamingResponse:
    """A row for each point of the chosen runs: run_id, run, key, step, value. Streamed, so that a run may have any number of points."""
    session.close()
    wanted = [key for key in (keys or "").split(",") if key]
    return _sent("metrics", form, FORMATS[form][1](export.POINT_COLUMNS, export.points(database, run_filter, wanted)))


def _sent(name: str, form: str, chunks: Iterator[bytes]) -> StreamingResponse:
    headers = {"content-disposition": f'attachment; filename="longtail-{name}.{form}"'}
    return StreamingResponse(chunks, media_type=FORMATS[form][0], headers=headers)
