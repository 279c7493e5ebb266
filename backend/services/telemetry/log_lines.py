"""The log of a run, a range of lines at a time."""

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.models import LogLine

LOG_LINES = 1000


def log_lines(
    session: Session,
    run_id: str,
    since: int = 0,
    before: int | None = None,
    tail: int | None = None,
    levels: Collection[str] = (),
    contains: str = "",
) -> Sequence[LogLine]:
    """Up to LOG_LINES lines with an id above ``since`` and below ``before``, oldest first; ask again from the last one's id.

    ``tail`` asks for the last so many of them. Only lines of these levels, all if there are none, that contain the text in any case.
    """
    query = select(LogLine).where(LogLine.run_id == run_id, LogLine.id > since)
    if before is not None:
        query = query.where(LogLine.id < before)
    if levels:
        query = query.where(LogLine.level.in_(levels))
    if contains:
        query = query.where(LogLine.message.icontains(contains, autoescape=True))
    if tail is None:
        return session.scalars(query.order_by(LogLine.id).limit(LOG_LINES)).all()
    return session.scalars(query.order_by(LogLine.id.desc()).limit(tail)).all()[::-1]
