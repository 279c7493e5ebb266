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
    """Of one run on one page. ``times`` is when its data was asked for last, by what, and ``took`` the seconds until it was there."""

    run: Run | None = None
    settling: int = 0
    times: dict[str, float] = field(default_factory=dict)
    took: float = 0.0

    def is_due(self, run: Run, what: str, now: float) -> bool:
        """Whether to ask for ``what`` at ``now`` (seconds): if the run has changed since the last look, for some looks after that, as the
        API may have had only a part of a step, and after half a minute in any case; but not before the page has rested, unless the run
        is in another state: nobody looks again after its end."""
        entered = self.run is not None and run.state != self.run.state
        if run != self.run:
            self.run, self.settling = run, SETTLING_LOOKS
        waited = now - self.times.get(what, -LONGEST_SECONDS)
        due = entered or waited >= LONGEST_SECONDS or (self.settling > 0 and waited >= REST * self.took)
        if due:
            self.settling = max(self.settling - 1, 0)
            self.times[what] = now
        return due

    def is_old(self, what: str, now: float, seconds: float) -> bool:
        """Whether ``what``, which moves slowly, was asked for so many seconds ago; then it is to be asked for now."""
        old = now - self.times.get(what, -seconds) >= seconds
        if old:
            self.times[what] = now
        return old
