"""The first start: somebody has to be let in."""

from sqlalchemy import select

from backend.database import Database
from backend.models import User
from backend.services.identity import users
from backend.services.identity.tokens import issue
from backend.settings import Settings
from longtail.schemas.credentials import write_private

NAME = "admin"


def ensure_admin(database: Database, settings: Settings) -> None:
    """If nobody can administer (a new database, or the last admin's token has run out), writes a token for that into the home."""
    with database.write() as session:
        users.lock_admins(session)
        if users.has_a_way_in(session):
            return
        admin = session.scalar(select(User).where(User.name == NAME)) or users.create(session, NAME, "admin")
        admin.role, admin.disabled = "admin", False
        _, secret = issue(session, admin, "token", "made at the first start", "admin", None)
        write_private(settings.token_file, secret)
