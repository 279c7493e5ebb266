"""When an open page asks for a run's data anew: not each time that it looks, as a page that is left open costs the API little."""

from dataclasses import dataclass, field

from longtail.schemas.runs import Run

SETTLING_LOOKS = 2
LONGEST_SECONDS = 30.0
REST = 9.0
"""Times as long as it asked, a page rests before it asks again: of many pages that are open at once, one in ten asks at a time, and the
slower the API answers, the less often they do."""


@dataclass
class RefreshPace:
    """Of one run on one page. By what was looked at, such as a tab: the run at the last look, the looks that it is still asked for, and
    the time when it was asked for last. ``took``: the seconds until that was there."""

    runs: dict[str, Run] = field(default_factory=dict)
    settling: dict[str, int] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    took: float = 0.0

    def is_due(self, run: Run, what: str, now: float) -> bool:
        """Whether to ask for ``what`` at ``now`` (seconds): if the run has changed since the last look at that, for some looks after, as
        the API may have had only a part of a step, and after half a minute in any case; but not before the page has rested, unless the
        run is in another state: nobody looks again after its end."""
        seen = self.runs.get(what)
        entered = seen is not None and run.state != seen.state
        if run != seen:
            self.runs[what], self.settling[what] = run, SETTLING_LOOKS
        waited = now - self.times.get(what, -LONGEST_SECONDS)
        due = entered or waited >= LONGEST_SECONDS or (self.settling[what] > 0 and waited >= REST * self.took)
        if due:
            self.settling[what] = max(self.settling[what] - 1, 0)
            self.times[what] = now
        return due

    def is_old(self, what: str, now: float, seconds: float) -> bool:
        """Whether ``what``, which moves slowly, was asked for so many seconds ago; then it is to be asked for now."""
        old = now - self.times.get(what, -seconds) >= seconds
        if old:
            self.times[what] = now
        return old
