"""What runs are called where several stand side by side."""

from collections import Counter
from collections.abc import Sequence

from dashboard.text.formats import short
from longtail.schemas.runs import Run

LONGEST_NAME = 60


def run_labels(runs: Sequence[Run], longest: int = LONGEST_NAME) -> dict[str, str]:
    """Run id -> name, shortened to ``longest`` characters, with the beginning of the id where runs share a name."""
    names = {run.id: short(run.name, longest) for run in runs}
    counts = Counter(names.values())
    return {run_id: name if counts[name] == 1 else f"{name} ({run_id[:6]})" for run_id, name in names.items()}
