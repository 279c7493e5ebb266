"""Which run is the plain baseline of which: of two with one configuration, the one without speculation."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SECTION, SWITCH = "speculation", "enabled"
DRAFTER = "drafter"
PRETRAINING = ("pretrain_minutes", "pretrain_responses", "pretrain_learning_rate", "draft_vocabulary")


def is_plain(config: Mapping[str, Any]) -> bool:
    """Speculation is on unless the configuration turns it off."""
    return not _speculation(config).get(SWITCH, True)


def likeness(config: Mapping[str, Any]) -> str:
    """The same text for configurations that differ in their name, in speculation being on or off and in how the drafter is pretrained,
    which a plain run cannot do, and in nothing else."""
    speculation = {key: value for key, value in _speculation(config).items() if key != SWITCH}
    rest = {key: value for key, value in config.items() if key not in ("name", SECTION)}
    if isinstance(drafter := rest.get(DRAFTER), Mapping):
        rest[DRAFTER] = {key: value for key, value in drafter.items() if key not in PRETRAINING}
    return hashlib.sha256(json.dumps([rest, speculation], sort_keys=True).encode()).hexdigest()[:16]


def _speculation(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Empty where a script has put something else there."""
    found = config.get(SECTION)
    return found if isinstance(found, Mapping) else {}
