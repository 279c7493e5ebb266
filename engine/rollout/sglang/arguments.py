"""Our configuration in SGLang's words."""

import hashlib
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch
from transformers import PretrainedConfig

from engine.config import RolloutConfig, SGLangConfig, SpeculationConfig
from engine.drafter.export import TOKEN_MAP
from engine.drafter.kind import DrafterKind
from engine.rollout.interface import Request, Sampling
from engine.rollout.sglang.model_modules import others
from engine.rollout.sglang.supported_speculation import SGLangDrafter, widest

STREAMED = 16
"""Tokens between two signs of life of a response; with stop strings each token is looked at."""
ALGORITHMS: dict[DrafterKind, str] = {"eagle": "EAGLE", "eagle3": "EAGLE3"}
HEADS = (64, 128, 256)
CPU = {"device": "cpu", "attention_backend": "intel_amx", "disable_cuda_graph": True}


def environment(architecture: str | None = None) -> dict[str, str]:
    """Of SGLang's processes, beside what they inherit. They import no models but ours and that of the model's ``architecture``: the 200
    others take longer than all the rest."""
    return {
        "HF_HUB_OFFLINE": "1",
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1",  # drafts may go a little beyond the model's own limit
        "SGLANG_DISABLED_MODEL_ARCHS": ",".join(sorted(others(architecture))),
    }


def engine_arguments(
    model: Path, rollout: RolloutConfig, device: torch.device, dtype: torch.dtype, seed: int, drafted: int, head: int
) -> dict[str, Any]:
    """Of ``sglang.Engine``, but for speculation, which needs ``drafted`` places for a request's drafts. ``head``: numbers in an attention
    head."""
    settings = rollout.sglang
    length = rollout.max_prompt_tokens + rollout.max_new_tokens + 2 * drafted + 8
    arguments: dict[str, Any] = {
        "model_path": str(model),
        "skip_tokenizer_init": True,
        "dtype": str(dtype).removeprefix("torch."),
        "random_seed": seed,
        "context_length": length,
        "max_running_requests": rollout.max_batch,
        "tp_size": settings.tensor_parallel,
        "mem_fraction_static": settings.mem_fraction,
        "sampling_backend": "pytorch",  # the other one has no seeds
        "grammar_backend": "none",
        "sleep_on_idle": True,  # while the drafter and the policy train
        "stream_interval": STREAMED,
        "incremental_streaming_output": True,
        "log_level": "warning",
    }
    if device.type == "cpu":
        return arguments | CPU | {"max_total_tokens": rollout.max_batch * length}
    on_gpu = {
        "enable_memory_saver": settings.release_memory,
        "disable_prefill_cuda_graph": True,  # a rollout prefills once, and all their sizes would be captured at each start
    }
    return arguments | attention_arguments(dtype, head) | on_gpu


def attention_head(config: PretrainedConfig) -> int:
    """Numbers in an attention head of the model with this configuration."""
    size: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return size


def attention_arguments(dtype: torch.dtype, head: int) -> dict[str, Any]:
    """What SGLang chooses on a GPU, but for models that its flash attention kernels refuse."""
    return {} if dtype != torch.float32 and head in HEADS else {"attention_backend": "triton"}


def draft_arguments(
    speculation: SpeculationConfig, drafting: SGLangDrafter, settings: SGLangConfig, kind: DrafterKind, folder: Path
) -> dict[str, Any]:
    """Of who drafts: the learned drafter in ``folder``/drafter, or what is there in its place."""
    if drafting == "ngram":
        return ngram_arguments(speculation)
    if drafting == "standalone":
        return speculative_arguments(speculation, "STANDALONE", Path(settings.draft_model or ""))
    token_map = folder / "drafter" / TOKEN_MAP
    more = {"speculative_token_map": str(token_map)} if token_map.exists() else {}
    return speculative_arguments(speculation, ALGORITHMS[kind], folder / "drafter") | more


def speculative_arguments(speculation: SpeculationConfig, algorithm: str, drafter: Path) -> dict[str, Any]:
    """Drafts of the model in the folder ``drafter``; the plugin changes their shape from step to step."""
    shape = widest(speculation)
    return {
        "speculative_algorithm": algorithm,
        "speculative_draft_model_path": str(drafter),
        "speculative_eagle_topk": shape.top_k,
        "speculative_num_steps": shape.steps,
        "speculative_num_draft_tokens": shape.tokens,
    }


def ngram_arguments(speculation: SpeculationConfig) -> dict[str, Any]:
    """Chains of the first strategy's ``verify`` tokens, each found by at most as many before it."""
    drafted = speculation.strategies[0].verify
    return {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": drafted + 1,
        "speculative_ngram_max_bfs_breadth": 1,
        "speculative_ngram_max_trie_depth": 2 * drafted + 1,
    }


def sampling_arguments(request: Request, sampling: Sampling, end_tokens: Set[int]) -> dict[str, Any]:
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": sampling.min_p,
        "max_new_tokens": sampling.max_new_tokens - len(request.begun.tokens),
        "stop_token_ids": sorted(end_tokens),
        "ignore_eos": not end_tokens,
        "sampling_seed": seed_of(request.id, sampling.seed),
        "stream_interval": 1 if sampling.stop else STREAMED,
    }


def seed_of(request: int, seed: int) -> int:
    """63 bits that no other request of this seed has."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{request}".encode()).digest()[:8], "little") >> 1
