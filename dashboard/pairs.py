"""Which run to measure another by: the same configuration with speculation the other way round."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from backend.schemas.runs import Run

MAX_NAME, SUFFIX = 200, " (plain)"


def speculates(config: dict[str, Any]) -> bool:
    """Speculation is on unless the configuration turns it off."""
    return bool(config.get("speculation", {}).get("enabled", True))


def plain_twin(config: dict[str, Any]) -> dict[str, Any]:
    """The same run as a plain baseline."""
    twin = deepcopy(config)
    twin.setdefault("speculation", {})["enabled"] = False
    twin["name"] = f"{config.get('name', 'run')[: MAX_NAME - len(SUFFIX)]}{SUFFIX}"
    return twin


def partner(run: Run, others: Iterable[Run]) -> Run | None:
    """The newest run with at least one step that differs from ``run`` in its name and in speculation being on or off, nothing else."""
    wanted = _core(run.config)
    fitting = (
        other for other in others if other.step and speculates(other.config) != speculates(run.config) and _core(other.config) == wanted
    )
    return max(fitting, key=lambda other: other.created_at, default=None)


def _core(config: dict[str, Any]) -> dict[str, Any]:
    core = {key: value for key, value in config.items() if key != "name"}
    return core | {"speculation": {key: value for key, value in config.get("speculation", {}).items() if key != "enabled"}}
