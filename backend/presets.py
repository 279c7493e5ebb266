"""Configurations to start from. The demo's settings live here and nowhere else."""

from typing import Any

from backend.schemas.runs import Preset
from engine.config import RunConfig

DEMO: dict[str, Any] = {
    "seed": 1,
    "task": {"name": "countdown", "four_numbers": 0.25},
    "algorithm": {"steps": 18, "prompts_per_step": 8, "group_size": 4, "learning_rate": 2e-5, "kl_coefficient": 0.0},
    "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 1024},
    "drafter": {"spot": {"tokens_per_microbatch": 512}},
    "cluster": {"workers": 2},
    "checkpoint": {"every": 10},
}
COUNTDOWN_100: dict[str, Any] = DEMO | {"algorithm": DEMO["algorithm"] | {"steps": 100}}
GSM8K: dict[str, Any] = {
    "model": {"path": "models/qwen2.5-0.5b-instruct"},
    "task": {"name": "math", "path": "data/gsm8k/train.jsonl"},
    "drafter": {"path": None},
    "algorithm": {"steps": 100, "prompts_per_step": 16, "group_size": 8, "learning_rate": 1e-6},
    "rollout": {"max_new_tokens": 1024},
}


def presets() -> list[Preset]:
    """All presets, with every default filled in."""
    return [
        _preset("demo-tlt", "Demo: TLT", "Adaptive speculative rollouts, and a drafter trained by idle workers", DEMO),
        _preset("demo-plain", "Demo: plain", "The same run with stock decoding: the baseline", DEMO | {"speculation": {"enabled": False}}),
        _preset("countdown-100", "Countdown, 100 steps", "Long enough to see the model learn", COUNTDOWN_100),
        _preset("gsm8k", "GSM8K", "Grade-school maths with a Hugging Face model; set model.path and task.path to your folders", GSM8K),
    ]


def preset(name: str) -> Preset:
    return next(preset for preset in presets() if preset.name == name)


def _preset(name: str, title: str, description: str, config: dict[str, Any]) -> Preset:
    full = RunConfig.model_validate({"name": name} | config)
    return Preset(name=name, title=title, description=description, config=full.model_dump(mode="json"))
