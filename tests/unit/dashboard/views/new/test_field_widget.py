from math import inf, nan
from typing import Any

import pytest

from dashboard.views.new.field_widget import LARGEST, _fits
from dashboard.views.new.schema_fields import FormField


@pytest.mark.parametrize(
    ("value", "fits"), [(3, True), (0.5, True), (LARGEST + 1, False), (10**400, False), (inf, False), (nan, False), ("Infinity", False)]
)
def test_what_a_browser_cannot_hold_is_no_number_to_it(value: Any, fits: bool) -> None:
    """YAML has integers of any size, beyond all floats, too."""
    assert _fits(FormField("algorithm.steps", "number", "", 1), value, int | float) == fits
