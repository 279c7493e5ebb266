"""Supervised warm start of ``tiny`` on search traces: Muon for the matrices, AdamW for the rest, one process per core."""

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.functional import cross_entropy
from transformers import Qwen2ForCausalLM

from engine.models.tiny import character_tokenizer, tiny_config
from engine.warmstart.search_traces import examples
from engine.warmstart.trace_batches import IGNORED, TraceBatches
from engine.warmstart.unused_tokens import suppress_unused_tokens


@dataclass(frozen=True)
class WarmStart:
    """The recipe. The schedule follows the clock, so that ``minutes`` holds on any machine."""

    output: Path
    minutes: float = 65.0
    processes: int = 2
    seed: int = 0
    learning_rate: float = 2e-3
    four_numbers: float = 0.35
    longest: int = 1000
    tokens: int = 2048
    accumulate: int = 2


def train_target(recipe: WarmStart) -> None:
    """Trains on all processes and writes a Hugging Face folder to ``recipe.output`` (and every few minutes on the way)."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29555")
    spawn(_train, args=(recipe,), nprocs=recipe.processes)  # type: ignore[no-untyped-call]


def _train(rank: int, recipe: WarmStart) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    dist.init_process_group("gloo", rank=rank, world_size=recipe.processes)
    tokenizer = character_tokenizer()
    model = Qwen2ForCausalLM(tiny_config(len(tokenizer))).train()  # type: ignore[no-untyped-call]
    trained_by = optimizers(model)
    source = TraceBatches(tokenizer, (recipe.seed + 1) * 1_000_000 * (rank + 1), recipe.four_numbers, recipe.tokens)
    batches = iter(source)
    started, saved, step = time.monotonic(), 0.0, 0
    while (progress := _agreed((time.monotonic() - started) / (60 * recipe.minutes))) < 1:
        source.longest = 200 + int((recipe.longest - 200) * min(1.0, max(0.0, (progress - 0.3) / 0.3)))
        rate = recipe.learning_rate * min(1.0, (step + 1) / 50) * max(0.02, 0.5 + 0.5 * math.cos(math.pi * progress))
        loss = torch.stack([_backward(model, *next(batches), recipe.accumulate) for _ in range(recipe.accumulate)]).sum()
        _average_gradients(model)
        for optimizer in trained_by:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        if rank == 0 and step % 20 == 0:
            print(f"step {step}  {100 * progress:.0f} %  loss {loss.item():.3f}  longest {source.longest}", flush=True)
        if rank == 0 and time.monotonic() - saved > 240:
            saved = time.monotonic()
            save(model, recipe.output)
    if rank == 0:
        suppress_unused_tokens(model, tokenizer, examples(recipe.seed, recipe.four_numbers, recipe.longest))
        save(model, recipe.output)
    dist.destroy_process_group()


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the rest."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _backward(model: Qwen2ForCausalLM, inputs: Tensor, labels: Tensor, accumulate: int) -> Tensor:
    logits = model(input_ids=inputs, use_cache=False).logits
    loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED) / accumulate
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def _average_gradients(model: Qwen2ForCausalLM) -> None:
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    norm = flat.norm()
    flat *= min(1.0, 1.0 / float(norm + 1e-6))
    for gradient, part in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _agreed(value: float) -> float:
    """The largest value of all processes, so that every one stops at the same step."""
    tensor = torch.tensor(value)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor)


def save(model: Qwen2ForCausalLM, folder: Path) -> None:
    """Writes a bf16 Hugging Face folder with its tokenizer."""
    half = Qwen2ForCausalLM(model.config)  # type: ignore[no-untyped-call]
    half.load_state_dict(model.state_dict())
    half.bfloat16()
    half.save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
