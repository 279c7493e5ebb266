"""How long the responses to a prompt will be, judged by earlier steps. Pure."""

import hashlib
from array import array
from collections.abc import Sequence
from statistics import fmean
from typing import Any

MEMORY = 65_536
"""Prompts remembered; the oldest go first."""
NEWEST = 0.5
"""Weight of a step's mean against all before it: the policy changes."""

PromptTokens = tuple[int, ...]


class ResponseLengthPredictor:
    """Of a prompt that was answered before its own responses tell; of a new one those to prompts with as many tokens."""

    def __init__(self) -> None:
        self._own: dict[str, float] = {}
        self._alike: dict[int, float] = {}

    def learn(self, answered: Sequence[tuple[PromptTokens, int]]) -> None:
        """A step's finished responses: prompt and tokens of each."""
        own: dict[str, list[int]] = {}
        alike: dict[int, list[int]] = {}
        for prompt, length in answered:
            own.setdefault(_key(prompt), []).append(length)
            alike.setdefault(len(prompt), []).append(length)
        for key, lengths in own.items():
            self._own[key] = _mixed(self._own.pop(key, None), fmean(lengths))
        for size, lengths in alike.items():
            self._alike[size] = _mixed(self._alike.get(size), fmean(lengths))
        for key in list(self._own)[:-MEMORY]:
            del self._own[key]

    def expected(self, prompt: PromptTokens) -> float:
        """Mean tokens of a response; of a prompt unlike all before, the mean over the sizes of prompts. At least 1."""
        overall = fmean(self._alike.values()) if self._alike else 1.0
        return max(1.0, self._own.get(_key(prompt), self._alike.get(len(prompt), overall)))

    def state(self) -> dict[str, Any]:
        """For a checkpoint; plain JSON values."""
        return {"own": dict(self._own), "alike": list(self._alike.items())}

    def load_state(self, state: dict[str, Any]) -> None:
        self._own, self._alike = dict(state["own"]), dict(state["alike"])


def _mixed(before: float | None, now: float) -> float:
    return now if before is None else (1 - NEWEST) * before + NEWEST * now


def _key(prompt: PromptTokens) -> str:
    return hashlib.blake2b(array("q", prompt).tobytes(), digest_size=12).hexdigest()
