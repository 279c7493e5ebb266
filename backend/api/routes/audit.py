"""Who changed what."""

from typing import Annotated

from fastapi import APIRouter, Query

from backend.api.deps import Cursor, Limit, Reading
from backend.schemas.accounts import AuditEntry, AuditPage
from backend.services.audit import entries

router = APIRouter(prefix="/audit", tags=["users"])


@router.get("")
def audit(
    session: Reading,
    user: Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$", description="Only what this user did")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> AuditPage:
    """Every write, newest first: who, what, when, to what, from where."""
    found, next_cursor = entries(session, user, limit, cursor)
    return AuditPage(items=[AuditEntry.model_validate(entry) for entry in found], next_cursor=next_cursor)
