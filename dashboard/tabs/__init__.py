"""The tabs of the run page, in their order."""

from collections.abc import Sequence

from backend.schemas.runs import Run
from dashboard.tabs import config, drafter, files, logs, long_tail, metrics, overview, samples, speculation, system, timeline, training
from dashboard.tabs.tab import Tab

TABS = (
    overview.TAB,
    metrics.TAB,
    long_tail.TAB,
    timeline.TAB,
    speculation.TAB,
    training.TAB,
    drafter.TAB,
    samples.TAB,
    system.TAB,
    logs.TAB,
    config.TAB,
    files.TAB,
)


def tabs_of(run: Run) -> Sequence[Tab]:
    return [tab for tab in TABS if tab.fits(run)]
