"""``bench memory``: what a learner step takes of memory, measured (peak resident memory on a CPU), beside what the planner says."""

import resource
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM, Qwen2Config

from engine.config.algorithm import AlgorithmConfig
from engine.config.learner import LearnerConfig
from engine.models.folder import TINY
from engine.models.load import load_tokenizer
from engine.planner.memory import GB, passes, states
from engine.planner.model_shape import Shape, shape
from engine.policy.training.learner import Learner
from engine.policy.training.microbatches import TrainingRow
from engine.policy.training.sharded_policy import ShardedPolicy

ARMS = {"activations kept": False, "activations computed again": True}
LENGTH, PROMPT = 256, 32


def run(quick: bool, model: str) -> dict[str, Any]:
    """In bfloat16 with float32 weights, of a random model with the shape of ``model``, a preset of the planner or a folder."""
    sizes, rows = shape(model), 2 if quick else 8
    with TemporaryDirectory(prefix="longtail-") as folder:
        path = Path(folder)
        _write_model(sizes, path)
        arms = {name: _measure(path, sizes, checkpointing, rows) for name, checkpointing in ARMS.items()}
    return {"model": model, "parameters": sizes.parameters, "tokens": rows * LENGTH, "arms": arms}


def _measure(folder: Path, sizes: Shape, checkpointing: bool, rows: int) -> dict[str, float]:
    learner = LearnerConfig(parallel="fsdp", precision="bfloat16", packed=True, activation_checkpointing=checkpointing)
    parts = states(sizes, learner, 1, reference=False) | passes(sizes, learner, rows * LENGTH)
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_step, args=(folder, learner, rows, there))
    process.start()
    there.close()
    before, after = here.recv()
    process.join()
    measured, predicted = (after - before) / GB, sum(parts.values()) / GB
    return {
        "measured_gb": round(measured, 2),
        "predicted_gb": round(predicted, 2),
        "predicted_over_measured": round(predicted / measured, 3),
    }


def _step(folder: Path, learner: LearnerConfig, rows: int, told: Connection) -> None:
    """Tells this process's peak resident bytes before there is a model and after an update."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous-{learner.activation_checkpointing}", rank=0, world_size=1)
    assert dist.group.WORLD
    before = _peak()
    algorithm = AlgorithmConfig(kl_coefficient=0.0, tokens_per_microbatch=rows * LENGTH)
    subject = Learner(ShardedPolicy(folder, learner, 1.0, torch.device("cpu"), dist.group.WORLD, False), algorithm, LENGTH)
    tokens = torch.randint(1000, (rows, LENGTH), generator=torch.Generator().manual_seed(0)).tolist()
    subject.update([TrainingRow(tuple(line), PROMPT, 1.0, (-5.0,) * (LENGTH - PROMPT)) for line in tokens], None, 0)
    told.send((before, _peak()))
    dist.destroy_process_group()


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _write_model(sizes: Shape, folder: Path) -> None:
    config = Qwen2Config(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        tie_word_embeddings=sizes.tied,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    load_tokenizer(TINY).save_pretrained(folder)
