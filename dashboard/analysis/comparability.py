"""Why two runs are no yardstick for each other's speed, and on what they ran."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.config_differences import one_line_yaml
from dashboard.text.formats import short
from longtail.schemas.comparison import ComparedRun, ConfigDifference

MOST, LONGEST = 4, 60


def other_work(baseline: ComparedRun, other: ComparedRun, differences: Sequence[ConfigDifference]) -> str:
    """In what they differ that makes their work another: ``model.path (tiny, small) and task.name (countdown, math)``. Empty if nothing
    does."""
    values = {each.field: each.values for each in differences}

    def told(field: str) -> str:
        if field not in values:
            return field
        pair = (one_line_yaml(values[field].get(item.run.id)) for item in (baseline, other))
        return short(f"{field} ({', '.join(pair)})", LONGEST)

    fields = other.confounders
    listed = [told(field) for field in fields[:MOST]] + ([f"{len(fields) - MOST} more"] if len(fields) > MOST else [])
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def machines(items: Sequence[ComparedRun], names: Mapping[str, str]) -> str:
    """On what they ran, by name where that is not the same for all."""
    known = {item.machine for item in items}
    if known == {None}:
        return "Nobody told on which machines."
    if len(known) == 1:
        return f"All on one machine: {items[0].machine}."
    return "On different machines. " + "; ".join(f"{names[item.run.id]}: {item.machine or 'not known'}" for item in items) + "."
