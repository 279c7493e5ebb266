"""The kernels that SGLang 0.5.20 asks for on a CPU, in plain PyTorch: for tests only, in place of the package of that name.

There is no such package for CPUs without AMX. SGLang takes its own PyTorch code for all layers, and these for attention, the
bookkeeping of cache rows, draft chains and trees, and the verification of drafts. A kernel that is missing here says so when called.
"""

from collections.abc import Callable
from typing import Any

from . import attention as attention  # registers torch.ops.sgl_kernel
from .cache import assign_draft_cache_locs_contiguous_cpu as assign_draft_cache_locs_contiguous_cpu
from .cache import assign_extend_cache_locs_cpu as assign_extend_cache_locs_cpu
from .cache import assign_req_to_token_pool_cpu as assign_req_to_token_pool_cpu
from .cache import build_draft_decode_metadata_cpu as build_draft_decode_metadata_cpu
from .cache import copy_all_layer_kv_cache_cpu as copy_all_layer_kv_cache_cpu
from .cache import fill_accept_out_cache_loc_cpu as fill_accept_out_cache_loc_cpu
from .cache import fill_bonus_tokens_cpu as fill_bonus_tokens_cpu
from .sampling import top_k_renorm_prob as top_k_renorm_prob
from .sampling import top_p_renorm_prob as top_p_renorm_prob
from .sampling import tree_speculative_sampling_target_only as tree_speculative_sampling_target_only
from .trees import build_tree_kernel_efficient_cpu as build_tree_kernel_efficient_cpu
from .trees import verify_tree_greedy_cpu as verify_tree_greedy_cpu

__version__ = "0.4.7"


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name} has no stand-in on the CPU")

    return missing
