"""Which figures the tab Learning draws."""

import pytest

from dashboard.views.run.tabs.learning import FIGURES, PREEMPTIONS, figures_for
from longtail.schemas.telemetry import Series


@pytest.mark.parametrize(("values", "shown"), [([], False), ([0.0, None], False), ([0.0, 2.0], True)])
def test_a_full_cache_is_shown_where_responses_waited_for_it(values: list[float | None], shown: bool) -> None:
    figures = figures_for(Series(steps=list(range(len(values))), values=values))
    assert figures == ((*FIGURES, PREEMPTIONS) if shown else FIGURES)
