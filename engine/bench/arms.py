"""The arms of a whole run: plain decoding and what makes it faster, everything else the same; and their runs, in turns."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bench.runs import run_engine
from engine.config import merged
from engine.events import AnyEvent

Config = dict[str, Any]
Runs = Mapping[str, list[AnyEvent]]
"""The events of one seed's runs, by arm."""

NGRAMS = [{"drafter": "ngram", "depth": depth, "verify": depth} for depth in (8, 3)]
ARMS: dict[str, Config] = {
    "plain": {"speculation": {"enabled": False}},
    "ngram": {"speculation": {"strategies": NGRAMS}, "drafter": {"path": None, "spot": {"enabled": False}}},
    "static": {"drafter": {"spot": {"enabled": False}}},
    "beg": {"speculation": {"tuner": {"name": "beg"}}},
    "tlt": {},
}
"""``static`` is TLT without drafter training: the drafter stays as it is at the start, and all else is TLT's. So the two differ by what
training in the tail costs and brings. ``beg`` is TLT with the tuner of its Algorithm 1 in place of ours."""

COUNTDOWN: Config = {"task": {"name": "countdown", "four_numbers": 0.25}, "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 1024}}
LONG_TAILED: Config = {"prompts_per_step": 8, "group_size": 4}


@dataclass(frozen=True)
class Scale:
    """What all arms share: a ``model``, and the sections of ``config``. What these leave out is the default."""

    model: str
    config: Config
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: int = 3

    @property
    def steps(self) -> int:
        return int(self.config["algorithm"]["steps"])


def configuration(scale: Scale, arm: str, seed: int) -> Config:
    """That of one run."""
    shared: Config = {"seed": seed, "model": {"path": scale.model}, "cluster": {"workers": 2}}
    return merged(merged(shared, scale.config), ARMS[arm])


def take_turns(folder: Path, name: str, scale: Scale, seeds: int) -> list[Runs]:
    """Each seed: the whole run of every arm, with another arm first each time. ``folder`` keeps the runs."""
    runs: list[Runs] = []
    for seed in range(1, seeds + 1):
        first = seed % len(scale.arms)
        order = scale.arms[first:] + scale.arms[:first]
        runs.append({arm: run_engine(folder / f"{name}-{arm}-{seed}", configuration(scale, arm, seed)) for arm in order})
    return runs
