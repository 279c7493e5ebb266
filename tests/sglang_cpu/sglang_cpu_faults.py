"""What SGLang 0.5.20 does wrong or slowly on a CPU, mended through its plugin entry point. For tests only, together with ``sgl_kernel``."""

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

SAMPLE = "sglang.srt.speculative.eagle_utils.eagle_sample"


def register() -> None:
    """Called by SGLang in each of its processes; does nothing unless it runs on the CPU."""
    if os.environ.get("SGLANG_USE_CPU_ENGINE") != "1":
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.runtime_context import get_platform

    get_platform()._install(has_amx=True)  # else its AMX attention, which our kernels stand in for, is refused
    HookRegistry.register(SAMPLE, draw, HookType.AROUND)
    fork()


def fork() -> None:
    """Its processes begin as copies of the first one: to import everything anew takes each of them ten seconds."""
    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.set_start_method = lambda *_, **__: None


def draw(original: Callable[..., Any], verify_input: Any, batch: Any, *arguments: Any, **named: Any) -> Any:
    """On a CPU upstream verifies drafts by argmax whatever the temperature, so that samples are of another law."""
    import sglang.srt.speculative.eagle_utils as utils

    utils._is_cpu = batch.sampling_info.is_all_greedy
    try:
        return original(verify_input, batch, *arguments, **named)
    finally:
        utils._is_cpu = True
