"""What SGLang needs of a machine and of a model; for the machine of the job."""

import os
import shutil

from engine.config import RunConfig
from engine.errors import ConfigError, ModelError
from engine.models.families import LISTED
from engine.models.folder import architecture, locate, read_config
from engine.rollout.sglang import start_errors, supported_speculation
from engine.rollout.sglang.model_modules import module_of


def check_machine(config: RunConfig, gpus: int) -> None:
    """ConfigError if SGLang, or what it needs, is not there. ``gpus``: CUDA devices of this machine."""
    if (lacking := start_errors.missing()) is not None:
        raise lacking
    start_errors.check_trees(config.speculation if config.speculation.enabled else None)
    ngrams = config.speculation.enabled and supported_speculation.drafting(config.speculation, config.rollout.sglang) == "ngram"
    if ngrams and not (shutil.which(os.environ.get("CXX", "c++")) and shutil.which("ninja")):
        raise ConfigError(
            "speculation.strategies: SGLang compiles its n-gram store, and needs c++ and ninja for that: apt-get install g++ ninja-build"
        )
    if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":  # SGLang's own word for a build with kernels for the CPU
        return
    if config.cluster.device == "cpu" or (config.cluster.ray_address is None and not gpus):
        raise ConfigError("rollout.engine: sglang needs a CUDA device, and this run has none; set rollout.engine to native")
    if config.cluster.ray_address is None and gpus < (needed := config.cluster.workers * config.rollout.sglang.tensor_parallel):
        raise ConfigError(
            f"rollout.sglang.tensor_parallel: {config.cluster.workers} workers need {needed} GPUs together, and this machine has {gpus}; "
            "lower it or cluster.workers, or give cluster.ray_address"
        )


def check_known(config: RunConfig) -> None:
    """ModelError if SGLang or the learner has no such model."""
    from transformers import CONFIG_MAPPING

    found = read_config(locate(config.model.path))
    family, kind = found["model_type"], architecture(found)
    for name, knows in (("SGLang", module_of(kind)), ("transformers", family in CONFIG_MAPPING)):
        if not knows:
            raise ModelError(f"model.path: {name} knows no {family} models ({kind}); use one of {LISTED}")
