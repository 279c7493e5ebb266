"""Who changed what."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.dependencies import Cursor, Limit, ReadSession
from backend.services.identity.audit import entries
from longtail.schemas.identity import AuditPage

router = APIRouter(prefix="/audit", tags=["users"])


@router.get("")
def audit(
    session: ReadSession,
    user: Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$", description="Only what this user did")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> AuditPage:
    """Every write, newest first: who, what, when, to what, from where."""
    return AuditPage.from_rows(entries(session, user, limit, cursor))
