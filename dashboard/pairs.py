"""Which run to measure another by: the same configuration with speculation the other way round."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Literal

from backend.schemas.runs import Run

MAX_NAME, SUFFIX = 200, " (plain)"


def speculates(config: dict[str, Any]) -> bool:
    """Speculation is on unless the configuration turns it off."""
    return bool(section(config, "speculation").get("enabled", True))


def kind(run: Run) -> Literal["TLT", "plain", "tracked"]:
    """What a run is called at a glance."""
    return "tracked" if run.kind == "tracked" else "TLT" if speculates(run.config) else "plain"


def section(config: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of a configuration; empty where a script has put something else there."""
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def length_limit(config: dict[str, Any]) -> int:
    """Of a response, in tokens."""
    limit = section(config, "rollout").get("max_new_tokens", 1024)
    return limit if isinstance(limit, int) else 1024


def plain_twin(config: dict[str, Any]) -> dict[str, Any]:
    """The same run as a plain baseline."""
    twin = deepcopy(config)
    twin.setdefault("speculation", {})["enabled"] = False
    twin["name"] = f"{config.get('name', 'run')[: MAX_NAME - len(SUFFIX)]}{SUFFIX}"
    return twin


def partner(run: Run, others: Iterable[Run]) -> Run | None:
    """The newest run with at least one step that differs from ``run`` in its name and in speculation being on or off, nothing else."""
    if run.kind == "tracked":
        return None
    wanted = _core(run.config)
    fitting = (
        other
        for other in others
        if other.step and other.kind == run.kind and speculates(other.config) != speculates(run.config) and _core(other.config) == wanted
    )
    return max(fitting, key=lambda other: other.created_at, default=None)


def _core(config: dict[str, Any]) -> dict[str, Any]:
    core = {key: value for key, value in config.items() if key != "name"}
    return core | {"speculation": {key: value for key, value in config.get("speculation", {}).items() if key != "enabled"}}
