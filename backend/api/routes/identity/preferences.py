"""What one keeps for the dashboard, such as pinned charts: everyone their own."""

from typing import Annotated

from fastapi import APIRouter, Path
from sqlalchemy import select

from backend import models
from backend.api.dependencies import DatabaseDep, IdentityDep, ReadSession
from backend.api.error_responses import documented
from backend.database import storable_json, upsert
from backend.errors import ConflictError
from longtail.schemas.preferences import NAME, Preference, Preferences

MOST = 100

router = APIRouter(prefix="/preferences", tags=["identity"])

Name = Annotated[str, Path(pattern=NAME, description="Such as pinned-metrics")]


@router.get("")
def list_preferences(identity: IdentityDep, session: ReadSession) -> Preferences:
    """All of one's own."""
    mine = select(models.Preference.name, models.Preference.value).where(models.Preference.user_id == identity.user_id)
    return Preferences(values={row.name: row.value for row in session.execute(mine)})


@router.put("/{name}", responses=documented(409))
def set_preference(name: Name, body: Preference, identity: IdentityDep, database: DatabaseDep) -> Preference:
    """Replaces what was kept under that name."""
    with database.write() as session:
        known = set(session.scalars(select(models.Preference.name).where(models.Preference.user_id == identity.user_id)))
        if name not in known and len(known) >= MOST:
            raise ConflictError(f"there are {MOST} preferences already")
        upsert(session, models.Preference, [{"user_id": identity.user_id, "name": name, "value": storable_json(body.value)}])
    return body
