"""Which runs are a pair, brought to what this version knows of settings and of their defaults."""

from sqlalchemy import select, update

from backend.database import Database
from backend.models import Run
from backend.models.baseline import likeness, likeness_form

BATCH = 500


def renew_likeness(database: Database) -> None:
    """Of all runs whose likeness an earlier version has worked out, a batch in each transaction."""
    query = select(Run.id, Run.config).where(Run.likeness.not_like(f"{likeness_form()}%")).order_by(Run.id).limit(BATCH)
    last = ""
    while True:
        with database.write() as session:
            found = session.execute(query.where(Run.id > last))
            renewed = [{"id": run_id, "likeness": likeness(config)} for run_id, config in found]
            if renewed:
                session.execute(update(Run), renewed)
        if len(renewed) < BATCH:
            return
        last = renewed[-1]["id"]
