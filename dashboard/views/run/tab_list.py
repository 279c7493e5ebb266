"""The tabs of the run page, in their order."""

from collections.abc import Sequence

from dashboard.views.run.tabs import (
    config,
    drafter,
    files,
    learning,
    logs,
    long_tail,
    metrics,
    overview,
    pretraining,
    samples,
    speculation,
    system,
    timeline,
    training,
)
from dashboard.views.run.tabs.tab import Tab
from longtail.schemas.runs import Run

TABS = (
    overview.TAB,
    pretraining.TAB,
    learning.TAB,
    long_tail.TAB,
    timeline.TAB,
    speculation.TAB,
    training.TAB,
    drafter.TAB,
    samples.TAB,
    metrics.TAB,
    system.TAB,
    logs.TAB,
    config.TAB,
    files.TAB,
)


def tabs_of(run: Run) -> Sequence[Tab]:
    return [tab for tab in TABS if tab.fits(run)]
