"""Which runs can be measured by each other: those that do the same work, and differ only in how it is done."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError

from engine.config import RunConfig

FORM_DIGITS, DIGITS = 4, 16
SECTION, SWITCH = "speculation", "enabled"
DRAFTER, ALGORITHM, STEPS = "drafter", "algorithm", "steps"
PRETRAINING = ("pretrain_minutes", "pretrain_responses", "pretrain_learning_rate", "pretrain_reverse_kl", "draft_vocabulary")
HOW = (
    *("name", SECTION, DRAFTER, "cluster", "checkpoint", f"{ALGORITHM}.{STEPS}", f"{ALGORITHM}.tokens_per_microbatch"),
    *("rollout.engine", "rollout.sglang", "rollout.max_batch", "rollout.scheduling"),
)
"""Fields and sections of a configuration that say how the work is done, and on what; all others say what is to be done."""
WHAT = ("cluster.learner.lora",)
"""Parts of these sections by which something else is trained."""


def is_plain(config: Mapping[str, Any]) -> bool:
    """Speculation is on unless the configuration turns it off."""
    return not _section(config, SECTION).get(SWITCH, True)


def with_defaults(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """``config`` with today's default of each setting that it does not name: a run lacks those that came after it. Unchanged where it is
    no configuration of ours, such as a script's."""
    try:
        return RunConfig.model_validate(config).model_dump(mode="json")
    except ValidationError:
        return config


def likeness(config: Mapping[str, Any]) -> str:
    """The same text for configurations that differ in their name, in their number of steps, in speculation being on or off and in how the
    drafter is pretrained, which a plain run cannot do, and in nothing else. It begins with ``likeness_form``."""
    config = with_defaults(config)
    speculation = {key: value for key, value in _section(config, SECTION).items() if key != SWITCH}
    rest = {key: value for key, value in config.items() if key not in ("name", SECTION)}
    for name, left_out in ((DRAFTER, PRETRAINING), (ALGORITHM, (STEPS,))):
        if isinstance(section := rest.get(name), Mapping):
            rest[name] = {key: value for key, value in section.items() if key not in left_out}
    return (likeness_form() + _digest([rest, speculation]))[:DIGITS]


@cache
def likeness_form() -> str:
    """Another one for each version that knows other settings or has other defaults: what an earlier one has worked out is to be renewed."""
    return _digest(RunConfig.model_json_schema())[:FORM_DIGITS]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def confounders(fields: Iterable[str]) -> list[str]:
    """Of dotted ``fields`` in which two configurations differ, those by which they do different work: then neither is a yardstick for the
    other's speed."""
    return [field for field in fields if _is_in(field, WHAT) or not _is_in(field, HOW)]


def _is_in(field: str, sections: Iterable[str]) -> bool:
    return any(field == section or field.startswith(f"{section}.") for section in sections)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Empty where a script has put something else there."""
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}
