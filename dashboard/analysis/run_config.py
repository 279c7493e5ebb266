"""What a run's configuration says at a glance, and how to make its plain baseline."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Literal

from longtail.schemas.runs import Run

MAX_NAME, SUFFIX = 200, " (plain)"


def speculates(config: dict[str, Any]) -> bool:
    """Speculation is on unless the configuration turns it off."""
    return bool(section(config, "speculation").get("enabled", True))


def trains_drafter_only(config: dict[str, Any]) -> bool:
    """Whether a run of this configuration has no steps, but a drafter to train."""
    return section(config, "algorithm").get("steps") == 0 and bool(section(config, "drafter").get("pretrain_minutes"))


def run_kind(run: Run) -> Literal["TLT", "plain", "tracked", "drafter"]:
    """What a run is called at a glance; "drafter": it only trains one."""
    if run.trains_drafter_only:
        return "drafter"
    return "tracked" if run.kind == "tracked" else "TLT" if speculates(run.config) else "plain"


def apart_from_seed(run: Run) -> str:
    """The same text for runs that differ in name and seed only. A script's run that says nothing of itself is like no other."""
    rest = {key: value for key, value in run.config.items() if key not in ("name", "seed")}
    return json.dumps([run.kind, rest if rest else run.id], sort_keys=True)


def seed(run: Run) -> int | None:
    """Of a script's run what its configuration calls so; None if it calls nothing so."""
    told = run.config.get("seed")
    return told if isinstance(told, int) else None if run.kind == "tracked" else run.seed


def section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A part of a configuration; empty where a script has put something else there."""
    found = config.get(name)
    return found if isinstance(found, dict) else {}


def length_limit(config: dict[str, Any]) -> int:
    """Of a response, in tokens."""
    limit = section(config, "rollout").get("max_new_tokens", 1024)
    return limit if isinstance(limit, int) else 1024


def plain_baseline(config: dict[str, Any]) -> dict[str, Any]:
    """The same run as a plain baseline, which has no drafter to pretrain."""
    twin = deepcopy(config)
    twin.setdefault("speculation", {})["enabled"] = False
    if section(twin, "drafter").get("pretrain_minutes"):
        twin["drafter"] |= {"pretrain_minutes": 0, "pretrain_responses": None}
    twin["name"] = f"{config.get('name', 'run')[: MAX_NAME - len(SUFFIX)]}{SUFFIX}"
    return twin
