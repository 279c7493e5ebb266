"""Configurations to start from. The settings of the demos live here and nowhere else."""

from typing import Any

from engine.config import RunConfig
from longtail.schemas.runs import Preset

DEMO: dict[str, Any] = {
    "seed": 1,
    "task": {"name": "countdown", "four_numbers": 0.25},
    "algorithm": {"steps": 18, "prompts_per_step": 8, "group_size": 4, "learning_rate": 2e-5, "kl_coefficient": 0.0},
    "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 1024},
    "drafter": {"spot": {"tokens_per_microbatch": 512}},
    "cluster": {"workers": 2},
    "checkpoint": {"every": 10},
}
REAL: dict[str, Any] = {
    "seed": 1,
    "model": {"path": "smollm2-135m"},
    "task": {"name": "word_problems"},
    "algorithm": {"steps": 10, "prompts_per_step": 8, "group_size": 8, "learning_rate": 3e-6, "kl_coefficient": 0.0},
    "rollout": {"max_prompt_tokens": 160, "max_new_tokens": 512},
    "drafter": {"path": "auto", "recipe": "hass", "pretrain_minutes": 8},
    "cluster": {"workers": 2, "learner": {"precision": "auto", "packed": True}},
}
REAL_PLAIN: dict[str, Any] = REAL | {"speculation": {"enabled": False}, "drafter": REAL["drafter"] | {"pretrain_minutes": 0}}
REAL_DRAFTER: dict[str, Any] = REAL | {"algorithm": REAL["algorithm"] | {"steps": 0}, "drafter": REAL["drafter"] | {"path": None}}
COUNTDOWN_100: dict[str, Any] = DEMO | {"algorithm": DEMO["algorithm"] | {"steps": 100}}
GSM8K: dict[str, Any] = {
    "model": {"path": "models/qwen2.5-0.5b-instruct"},
    "task": {"name": "math", "path": "data/gsm8k/train.jsonl"},
    "drafter": {"path": None},
    "algorithm": {"steps": 100, "prompts_per_step": 16, "group_size": 8, "learning_rate": 1e-6},
    "rollout": {"max_new_tokens": 1024},
}
DRAFTER: dict[str, Any] = {
    "seed": 1,
    "algorithm": {"steps": 0, "kl_coefficient": 0.0},
    "rollout": {"max_prompt_tokens": 512, "max_new_tokens": 512},
    "drafter": {"path": None, "recipe": "hass", "pretrain_minutes": 20},
    "cluster": {"workers": 2},
}
GPU_NODE: dict[str, Any] = {
    "model": {"path": "/models/Qwen2.5-1.5B-Instruct", "dtype": "bfloat16"},
    "task": {"name": "math", "path": "/data/gsm8k/train.jsonl"},
    "drafter": {"path": None},
    "algorithm": {"steps": 200, "prompts_per_step": 64, "group_size": 8, "learning_rate": 1e-6, "tokens_per_microbatch": 16_384},
    "rollout": {
        "engine": "sglang",
        "sglang": {"mem_fraction": 0.5, "release_memory": True},
        "max_prompt_tokens": 512,
        "max_new_tokens": 3072,
        "max_batch": 256,
    },
    "cluster": {"workers": 8, "device": "cuda", "threads_per_worker": 8},
}
GPU_CLUSTER: dict[str, Any] = GPU_NODE | {
    "algorithm": GPU_NODE["algorithm"] | {"prompts_per_step": 512},
    "cluster": GPU_NODE["cluster"] | {"workers": 64, "ray_address": "first-machine:6379"},
}


def presets() -> list[Preset]:
    """All presets, with every default filled in."""
    return [
        _preset("demo-tlt", "Demo: TLT on this machine", "Adaptive speculative rollouts, and a drafter trained by idle workers", DEMO),
        _preset("demo-plain", "Demo: plain baseline", "The same run with stock decoding", DEMO | {"speculation": {"enabled": False}}),
        _preset("real-tlt", "SmolLM2: TLT", "Word problems, by the newest drafter of the project, or one trained before", REAL),
        _preset("real-plain", "SmolLM2: plain baseline", "The same run with stock decoding", REAL_PLAIN),
        _preset("real-drafter", "SmolLM2: drafter", "No RL: the drafter that the run with TLT takes", REAL_DRAFTER),
        _preset("countdown-100", "Countdown, 100 steps", "Long enough to see the model learn", COUNTDOWN_100),
        _preset("gsm8k", "GSM8K", "Grade-school maths with a Hugging Face model; set model.path and task.path to your folders", GSM8K),
        _preset("drafter", "Train a drafter", "No RL: a drafter for a model, trained on what that writes itself", DRAFTER),
        _preset("gpu-node", "GPUs of one machine", "SGLang on 8 GPUs, a worker each; set model.path and task.path to yours", GPU_NODE),
        _preset(
            "gpu-cluster",
            "GPU cluster",
            "SGLang on 8 machines with 8 GPUs each, in the Ray cluster at cluster.ray_address; model and data in folders that all share",
            GPU_CLUSTER,
        ),
    ]


def preset(name: str) -> Preset:
    return next(preset for preset in presets() if preset.name == name)


def _preset(name: str, title: str, description: str, config: dict[str, Any]) -> Preset:
    full = RunConfig.model_validate({"name": name} | config)
    return Preset(name=name, title=title, description=description, config=full.model_dump(mode="json"))
