"""A draft of the form as a text that the browser keeps, and what may be taken of such a text: it can be of any age, and of anybody."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from dashboard.views.new.edited_config import EditedConfig

FORM, YAML = "Form", "YAML"
MOST_LETTERS = 2**18
MOST_EDITS = 200
LARGEST = 2**53 - 1
Options = Mapping[str, str | int | bool]


@dataclass(frozen=True)
class KeptDraft:
    """``origin``: name of the preset, or id of the run, that it began from. ``yaml``: the text, where it is edited as such. ``options``:
    what is said beside the configuration, by the key of the widget. Nothing else is kept: none of these is a secret."""

    origin: str
    config: EditedConfig
    yaml: str | None = None
    options: Options | None = None

    @property
    def is_empty(self) -> bool:
        return self.config == EditedConfig() and self.yaml is None and not self.options


def text_of(draft: KeptDraft) -> str | None:
    """None of an empty one, and of one that is too long to be kept."""
    if draft.is_empty:
        return None
    parts = {"origin": draft.origin, "base": draft.config.base, "edits": draft.config.edits, "yaml": draft.yaml, "options": draft.options}
    text = json.dumps(parts)
    return text if len(text) <= MOST_LETTERS else None


def draft_of(text: object) -> KeptDraft | None:
    """None if it is no draft. Fields that are gone, and values that are out of range, are for the form to tell: what cannot be in a form at
    all is left out."""
    try:
        parts = json.loads(text, parse_constant=_refuse) if isinstance(text, str) and len(text) <= MOST_LETTERS else None
        json.dumps(parts, ensure_ascii=False).encode()  # half a letter (a surrogate that is alone) can neither be shown nor sent
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, dict) or not isinstance(origin := parts.get("origin"), str):
        return None
    base, edits, yaml, options = (parts.get(name) for name in ("base", "edits", "yaml", "options"))
    config = EditedConfig(base if isinstance(base, dict) else None, tuple(_edits(edits)))
    return KeptDraft(origin, config, yaml if isinstance(yaml, str) else None, _options(options))


def _edits(told: object) -> list[tuple[str, Any]]:
    pairs = told[:MOST_EDITS] if isinstance(told, list) else []
    return [
        (pair[0], pair[1]) for pair in pairs if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and _fits(pair[1])
    ]


def _options(told: object) -> Options:
    return {name: value for name, value in told.items() if value is not None and _fits(value)} if isinstance(told, dict) else {}


def _fits(value: object) -> bool:
    """Whether a field can hold it."""
    return value is None or isinstance(value, str) or (isinstance(value, int | float) and abs(value) <= LARGEST)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no value of JSON")
