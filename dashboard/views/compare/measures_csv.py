"""The figures of a comparison as a table for a spreadsheet."""

import csv
import io
from collections.abc import Sequence

from dashboard.analysis.run_config import seed
from longtail.schemas.comparison import ComparedRun, Measures

OWN = ("id", "name", "state")
MEASURES = tuple(Measures.model_fields)
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def measures_csv(items: Sequence[ComparedRun]) -> str:
    """A row for each run, the baseline first; what was not measured is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*OWN, "seed", *MEASURES])
    for item in items:
        own = (_harmless(getattr(item.run, name)) for name in OWN)
        writer.writerow([*own, seed(item.run), *(getattr(item, name) for name in MEASURES)])
    return text.getvalue()


def _harmless(value: object) -> object:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it, as in the API's exports."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
