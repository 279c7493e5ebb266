"""Which rollout engine a run has whose configuration leaves it open."""

from pathlib import Path
from typing import NamedTuple

import torch

from engine.config import RunConfig
from engine.drafter.kind import RECIPE_KINDS
from engine.errors import ConfigError, ModelError
from engine.models.folder import locate, read_facts
from engine.models.load import resolve
from engine.rollout.sglang import requirements, supported_speculation


class EngineChoice(NamedTuple):
    """The run with one of the engines, and why it is that one."""

    config: RunConfig
    reason: str


def choose_engine(config: RunConfig, gpus: int | None = None) -> EngineChoice:
    """``rollout.engine`` auto is SGLang where there are CUDA devices, SGLang is installed, and it can do what the run asks for; else
    native. ``gpus``: CUDA devices of this machine, by default those that there are."""
    if config.rollout.engine != "auto":
        return EngineChoice(config, "rollout.engine says so")
    wanted = _with(config, "sglang")
    gpus = torch.cuda.device_count() if gpus is None else gpus
    try:
        _check_devices(config, gpus)
        facts = read_facts(locate(config.model.path))
        requirements.check_machine(wanted, gpus)
        requirements.check_known(wanted)
        supported_speculation.check(wanted, facts)
        _check_drafter(wanted)
    except (ConfigError, ModelError) as error:
        return EngineChoice(_with(config, "native"), str(error))
    return EngineChoice(wanted, "there are CUDA devices, and SGLang is installed")


def _check_devices(config: RunConfig, gpus: int) -> None:
    if config.cluster.device == "cpu":
        raise ConfigError("the run computes on CPUs (cluster.device)")
    if not gpus and not (config.cluster.ray_address and config.cluster.device == "cuda"):
        raise ConfigError("this machine has no CUDA device")


def _check_drafter(config: RunConfig) -> None:
    """Of a given drafter alone: those that are built in, or made by a run, are as SGLang has them."""
    path, sglang = config.drafter.path, config.rollout.sglang
    drafts = config.speculation.enabled and supported_speculation.drafting(config.speculation, sglang) == "eagle"
    if drafts and path not in (None, "builtin", "auto"):
        from engine.rollout.sglang import supported_drafters  # takes seconds, for which no other run has to wait

        kind = RECIPE_KINDS[config.drafter.recipe]
        supported_drafters.check_folder(Path(path), kind, resolve(config.model.path), sglang.tensor_parallel)


def _with(config: RunConfig, engine: str) -> RunConfig:
    return config.model_copy(update={"rollout": config.rollout.model_copy(update={"engine": engine})})
