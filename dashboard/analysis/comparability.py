"""Why two runs are no yardstick for each other's speed, and on what they ran."""

from collections.abc import Mapping, Sequence

from dashboard.analysis.config_differences import one_line_yaml
from dashboard.analysis.run_config import run_kind
from dashboard.text.formats import short
from longtail.schemas.comparison import ComparedRun, ConfigDifference

MOST_COMPARED = 10
"""Runs, the baseline among them."""
MOST, LONGEST = 4, 60
UNKNOWN = "not known, as a script tracks "


def work_is_known(*items: ComparedRun) -> bool:
    """Whether the engine has done it all, whose configuration says what it does; a script's says what the script likes."""
    return all(item.run.kind == "engine" for item in items)


def without_yardstick(items: Sequence[ComparedRun], differences: Sequence[ConfigDifference]) -> list[ComparedRun]:
    """The TLT runs that are measured neither by the baseline, ``items[0]``, nor by a plain run that does the same work."""
    values = {each.field: each.values for each in differences}

    def same_work(one: ComparedRun, other: ComparedRun) -> bool:
        """What one of two has unlike the baseline is theirs alike."""
        fields = {*one.confounders, *other.confounders}
        return work_is_known(one, other) and all(values[field].get(one.run.id) == values[field].get(other.run.id) for field in fields)

    def has_yardstick(item: ComparedRun) -> bool:
        others = [other for other in items if other is not item and (run_kind(other.run) == "plain" or items[0] in (item, other))]
        return any(same_work(item, other) for other in others)

    return [item for item in items if run_kind(item.run) == "TLT" and not has_yardstick(item)]


def other_work(baseline: ComparedRun, other: ComparedRun, differences: Sequence[ConfigDifference]) -> str:
    """In what they differ that makes their work another: ``model.path (tiny, small) and task.name (countdown, math)``. Empty if nothing
    does."""
    if not work_is_known(baseline, other):
        return UNKNOWN + ("the baseline" if work_is_known(other) else "it")
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
