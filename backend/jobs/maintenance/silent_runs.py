"""Closes tracked runs whose script says nothing more.

The API does this, and nobody else: while it is away no script can be heard. Silence is the time for which this process has watched a lease
stay as it was, by its own monotonic clock: no jump of any clock, no stall of the database and no pause of this process counts.
"""

import logging
import time
from collections.abc import Callable

from sqlalchemy import select

from backend.database import Database
from backend.models import Run
from backend.services.runs.tracking import close

LONGEST_LOOK_SECONDS = 30.0

Lease = tuple[str, float | None]

logger = logging.getLogger(__name__)


class SilentRunCloser:
    def __init__(self, database: Database, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._seconds, self._clock = database, seconds, clock
        self._before = clock()
        self._silent: dict[Lease, float] = {}

    def close_silent(self) -> list[str]:
        """The ids of the runs that it has closed now."""
        with self._database.read() as session:
            running = session.execute(select(Run.id, Run.lease_expires_at).where(Run.state == "running", Run.kind == "tracked"))
            leases: list[Lease] = [(run_id, expires) for run_id, expires in running]
        now = self._clock()
        watched, self._before = min(now - self._before, LONGEST_LOOK_SECONDS), now
        self._silent = {lease: self._silent[lease] + watched if lease in self._silent else 0.0 for lease in leases}
        return [lease[0] for lease, seconds in self._silent.items() if seconds > self._seconds and self._close(lease)]

    def _close(self, lease: Lease) -> bool:
        """Unless the script has said something meanwhile. One that was asked to stop is taken to have done so."""
        with self._database.write() as session:
            run = session.get_one(Run, lease[0], with_for_update=True)
            if run.lease_expires_at != lease[1]:
                return False
            reason = f"its script said nothing for {self._seconds:.0f} s"
            logger.warning("run %s: %s", run.id, reason)
            return close(session, run.id, "cancelled" if run.cancel_requested else "failed", reason, "silent")
