"""What every part of the configuration is made of."""

import os
import unicodedata
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, AllowInfNan, BaseModel, ConfigDict, Field, PlainSerializer, model_validator

PATH_BYTES = 2048
"""Half of what Linux takes: the names of the files in a folder come after it."""
NAME_BYTES = 255
BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""What Unicode calls letters or symbols, and fonts draw as nothing."""


def _nameable(path: Path) -> Path:
    named = os.fsencode(path)
    if len(named) > PATH_BYTES or any(len(name) > NAME_BYTES for name in named.split(b"/")):
        raise ValueError(f"no path: one has at most {PATH_BYTES} bytes here, and {NAME_BYTES} between two slashes; use a shorter one")
    return path


def _nameable_text(path: str) -> str:
    _nameable(Path(path))
    return path


def _visible(name: str) -> str:
    """ValueError for a name of which nothing is drawn, as of spaces, or of zero width."""
    if not any(unicodedata.category(letter)[0] in "LNPS" and letter not in BLANK for letter in name):
        raise ValueError("nothing of it can be seen; give it a letter, a digit or a sign")
    return name


Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(_visible)]
HostPath = Annotated[Path, AfterValidator(_nameable)]
HostPathText = Annotated[str, AfterValidator(_nameable_text)]
"""A path, or a name that stands for something else."""


def _spelled(limit: float) -> float | str:
    return limit if isfinite(limit) else "Infinity"


Unlimited = Annotated[float, AllowInfNan(True), PlainSerializer(_spelled, return_type=float | str, when_used="json")]
"""A limit, which a bound of its field keeps from being NaN. It may be infinite, .inf in YAML, where that has a meaning. JSON has no such
number: there it is the text "Infinity"."""
LearningRate = Annotated[float, Field(ge=1e-12, le=1)]
"""A step of AdamW moves a weight by about this much: with less than 1e-12 no float32 weight above 2e-5 would change (half its spacing)."""


class Section(BaseModel):
    """A closed, immutable part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, data: Any) -> Any:
        """YAML has ``yes`` for true, which would count as 1: as a text it is refused with all else that is wrong."""
        if not isinstance(data, dict):
            return data
        switched = {name: str(value).lower() for name, value in data.items() if isinstance(value, bool) and cls._counts(name)}
        return data | switched

    @classmethod
    def _counts(cls, name: str) -> bool:
        kinds = _kinds(cls.model_fields[name].annotation) if name in cls.model_fields else set()
        return bool(kinds & {int, float}) and bool not in kinds


def _kinds(annotation: Any) -> set[Any]:
    return {annotation}.union(*map(_kinds, get_args(annotation)))
