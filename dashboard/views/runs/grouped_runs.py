"""All runs of a filter as groups of seeds: a group may have its runs on several pages."""

from collections.abc import Sequence

from dashboard.analysis.run_groups import RunGroup, run_groups
from dashboard.views.runs.pagination import FetchPage, first_runs
from longtail.schemas.runs import Run

GROUPED = "grouped-runs"
"""Where the session keeps them."""
MOST, LONGEST_PAGE = 1000, 200
SECONDS_PER_PAGE = 2


class GroupedRuns:
    """The first MOST of the runs that ``choice`` is of. The more pages they take, the longer they are kept: an open page costs the API one
    request in SECONDS_PER_PAGE."""

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.runs: Sequence[Run] = ()
        self.groups: Sequence[RunGroup] = ()
        self.has_more = False
        self._kept_until = float("-inf")

    def refresh(self, ask: FetchPage, now: float) -> None:
        """Asks anew if that is due at ``now`` (seconds)."""
        if now < self._kept_until:
            return
        self.runs, pages, self.has_more = first_runs(ask, MOST)
        self.groups = run_groups(self.runs)
        self._kept_until = now + pages * SECONDS_PER_PAGE
