"""Why SGLang did not start, in a line that says what to do."""

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version

from engine.config import SpeculationConfig
from engine.errors import ConfigError, LongtailError, ModelError

SHOWN = 12
MEMORY = re.compile(r"out of memory|OutOfMemoryError|[Nn]ot enough memory|Cannot allocate memory|MemoryError|mem-fraction-static")
MODEL = re.compile(r"(Model architectures .* are not supported.*|Unsupported architecture.*|Parameter .* not found in params_dict.*)")
PLUGIN = re.compile(r"has no attribute '?longtail|runs another policy|Failed to (load|execute) (general )?plugin longtail")
INSTALL = "pip install 'longtail[sglang]'"
CHAINS_ONLY = "0.5.17"
"""Its CUDA graphs have the top_k that SGLang was started with, and no other."""
TESTED = (CHAINS_ONLY, "0.5.20", "0.5.23")


def missing() -> ConfigError | None:
    """What this Python lacks for SGLang; found out without importing it."""
    if importlib.util.find_spec("sglang") is None:
        return ConfigError(f"rollout.engine: sglang is not installed; {INSTALL}, or set rollout.engine to native")
    found = _version()
    if found not in TESTED:
        return ConfigError(f"rollout.engine: SGLang {found} is installed, and {', '.join(TESTED)} are supported; {INSTALL}")
    return None


def check_trees(speculation: SpeculationConfig | None) -> None:
    """ConfigError if there are trees among the strategies, and SGLang cannot change to them."""
    trees = [strategy for strategy in speculation.strategies if strategy.top_k > 1] if speculation else []
    if trees and _version() == CHAINS_ONLY:
        raise ConfigError(f"speculation.strategies: SGLang {CHAINS_ONLY} drafts chains only; set top_k={trees[0].top_k} to 1, or {INSTALL}")


def _version() -> str:
    try:
        return version("sglang")
    except PackageNotFoundError:
        return "unknown"


def cause(stage: str, message: str, log: str) -> LongtailError:
    """The error for a user: ``message`` is what was caught, ``log`` all that SGLang wrote."""
    lacking = missing()
    if lacking is not None:
        return lacking
    told = f"{message}\n{log}"
    if stage == "import":
        return ConfigError(
            f"rollout.engine: SGLang cannot be imported: {message}. Its torch, kernels or transformers do not fit: {INSTALL}"
        )
    if MEMORY.search(told):
        return ConfigError(
            "rollout.sglang.mem_fraction: SGLang does not find the memory it needs; change it, lower rollout.max_batch, or raise "
            f"rollout.sglang.tensor_parallel. It says: {_last(told, MEMORY)}"
        )
    if found := MODEL.search(told):
        return ModelError(f"model.path: SGLang cannot run this model: {found.group(0)}")
    if PLUGIN.search(told):
        return ConfigError(
            f"rollout.engine: SGLang did not take our plugin, which pip registers: {INSTALL}. It says: {_last(told, PLUGIN)}"
        )
    return ConfigError(f"rollout.engine: SGLang did not start: {message}\n" + "\n".join(log.strip().splitlines()[-SHOWN:]))


def _last(text: str, pattern: re.Pattern[str]) -> str:
    """The last line that tells of it."""
    return next(line.strip() for line in reversed(text.splitlines()) if pattern.search(line))
