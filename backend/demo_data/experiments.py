"""What is tried: pairs of a plain and a TLT run, ablations and sweeps, of several models and tasks; and what people call theirs."""

import random
from dataclasses import dataclass
from typing import Any

from backend.demo_data import texts
from backend.models.runs import GENERATED
from engine.config import merged
from longtail.schemas.projects import DEFAULT_PROJECT

Changes = dict[str, Any]

PAIRS, ABLATIONS, STRANGE = (f"{number:08x}{GENERATED}" for number in (1, 2, 3))
PROJECTS = {PAIRS: "Demo: long tail", ABLATIONS: "Demo: ablations \N{MICROSCOPE}", STRANGE: "Demo: <i>foreign</i> names"}
"""Names by id."""
KINDS = {"pair": 6, "ablation": 2, "sweep": 1, "strange": 1}
"""By how often each comes."""
SEEDS = 6
VARIANTS: dict[str, Changes] = {
    "as usual": {},
    "no spot training": {"drafter": {"spot": {"enabled": False}}},
    "BEG-MAB": {"speculation": {"tuner": {"name": "beg"}}},
    "EAGLE-3": {"drafter": {"recipe": "eagle3", "path": None}},
    "HASS": {"drafter": {"recipe": "hass", "path": None}},
    "no n-grams": {"speculation": {"suffix": {"enabled": False}}},
    "from 16 requests on": {"speculation": {"threshold": 16}},
    "longest first": {"rollout": {"scheduling": {"longest_first": True}}},
    "over-sampling": {"rollout": {"scheduling": {"longest_first": True, "over_sampling": 1.5, "partial": True}}},
}
RATES = (1e-6, 5e-6, 2e-5, 1e-4)
ALGORITHMS = ("grpo", "dapo", "gspo", "rloo")


@dataclass(frozen=True)
class ExperimentRun:
    """A run of an experiment. ``size``, from 0 up to 1, chooses how many steps it has."""

    name: str
    kind: str
    project_id: str
    size: float
    changes: Changes


def _setting(model: str, task: Changes, limit: int, workers: int, device: str = "cuda") -> Changes:
    return {
        "model": {"path": model},
        "task": task,
        "rollout": {"max_new_tokens": limit},
        "cluster": {"workers": workers, "device": device},
        "evaluation": {"every": 10 if task["name"] == "countdown" else 0},
    }


SETTINGS = {
    "Countdown, tiny": _setting("tiny", {"name": "countdown"}, 1024, 2, "cpu"),
    "Countdown, small": _setting("small", {"name": "countdown"}, 1024, 4, "cpu"),
    "GSM8K, Qwen2.5 0.5B": _setting("models/qwen2.5-0.5b-instruct", {"name": "math", "path": "data/gsm8k/train.jsonl"}, 2048, 2),
    "ARC, Qwen2.5 1.5B": _setting("models/qwen2.5-1.5b-instruct", {"name": "choice", "path": "data/arc/train.jsonl"}, 4096, 4),
    "Maths, Qwen2.5 7B": _setting("models/qwen2.5-7b-instruct", {"name": "math", "path": "data/deepmath.parquet"}, 16384, 8),
    "Code, Llama 3.1 8B": _setting("models/llama-3.1-8b-instruct", {"name": "code", "path": "data/taco.jsonl"}, 8192, 8),
}


def experiment(chance: random.Random) -> list[ExperimentRun]:
    """Runs that belong together: of the same setting, seed and size."""
    setting, seed, size = chance.choice(list(SETTINGS)), chance.randrange(SEEDS), chance.random()
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    own, variants = _variants(kind, setting, chance)
    project_id = chance.choice((DEFAULT_PROJECT, own))
    base = merged(SETTINGS[setting], {"seed": seed})
    return [ExperimentRun(name, kind, project_id, size, merged(base, changes)) for name, changes in variants.items()]


def _variants(kind: str, setting: str, chance: random.Random) -> tuple[str, dict[str, Changes]]:
    """Its project, and what the runs change, by their names."""
    match kind:
        case "pair":
            return PAIRS, {f"{setting} plain": _speculating(False), f"{setting} TLT": _speculating(True)}
        case "ablation":
            return ABLATIONS, {f"{setting}: {name}": VARIANTS[name] for name in chance.sample(list(VARIANTS), 3)}
        case "sweep":
            algorithm = chance.choice(ALGORITHMS)
            name = f"{setting}, {algorithm} at"
            return ABLATIONS, {f"{name} {rate:g}": {"algorithm": {"name": algorithm, "learning_rate": rate}} for rate in RATES}
        case _:
            return STRANGE, {name: _speculating(chance.random() < 0.7) for name in chance.sample(texts.NAMES, 2)}


def _speculating(enabled: bool) -> Changes:
    return {"speculation": {"enabled": enabled}}
