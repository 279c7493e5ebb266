"""The log of what was changed, by whom, from where."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, select
from sqlalchemy.orm import Session

from backend.database import Database
from backend.models import Artifact, AuditEntry, Project, Run, Token, User, Webhook
from backend.services.pagination import page

SUBJECTS = (Artifact, Project, Run, Token, User, Webhook)


class AuditedDatabase(Database):
    """The database as one request sees it: what it writes and the entry about it are one transaction.

    ``target`` is what the request is addressed to; the entry names what it creates beside it. A login says only later who it was.
    """

    def __init__(self, database: Database, user_name: str, token_id: str | None, action: str, target: str, address: str) -> None:
        self.writer, self.reader = database.writer, database.reader
        self.user_name, self.token_id, self.action = user_name, token_id, action
        self._target, self._address = target, address

    @contextmanager
    def write(self) -> Iterator[Session]:
        with super().write() as session:
            named = [self._target] if self._target else []

            def note(flushed: Session, _context: Any) -> None:
                named.extend(f"{row.__tablename__}/{row.id}" for row in flushed.new if isinstance(row, SUBJECTS))

            event.listen(session, "after_flush", note)
            yield session
            session.flush()
            self._add(session, named)

    def note(self, session: Session) -> None:
        """Adds the entry to a transaction that others share."""
        self._add(session, [self._target])

    def _add(self, session: Session, named: Sequence[str]) -> None:
        about = {"action": self.action, "object": " ".join(named), "address": self._address}
        session.add(AuditEntry(user_name=self.user_name, token_id=self.token_id, **about))


def entries(session: Session, user: str | None, limit: int, cursor: str | None) -> tuple[Sequence[AuditEntry], str | None]:
    """Newest first; of one user, or of all."""
    query = select(AuditEntry)
    if user is not None:
        query = query.where(AuditEntry.user_name == user)
    return page(session, query, [AuditEntry.id], limit, cursor)
