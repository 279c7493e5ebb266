"""``bench memory``: what an update of the policy, a step of the drafter and a session of its training take of memory, part by part: the
bytes of all tensors there are, counted on a CPU, beside what the planner says of them."""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from transformers import PreTrainedModel, Qwen2Config

from engine.bench.live_bytes import LiveBytes
from engine.bench.random_model import random_model
from engine.config import DrafterConfig, SpotConfig
from engine.config.algorithm import AlgorithmConfig
from engine.config.learner import LearnerConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import make_drafter
from engine.drafter.kind import feature_width
from engine.drafter.packing import MicroBatch
from engine.drafter.recipe import configured_recipe
from engine.drafter.spot_trainer import EVALUATED_TOKENS, JUDGED_FIRST, SpotTrainer
from engine.models.folder import TINY
from engine.models.load import load_model, load_tokenizer
from engine.models.weights import local
from engine.planner import drafter_memory, memory
from engine.planner.memory import GB
from engine.planner.model_shape import Shape, shape
from engine.policy.training.learner import Learner
from engine.policy.training.policy import LogprobsAndEntropies, Policy
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.sharded_policy import ShardedPolicy
from engine.policy.training.training_row import TrainingRow

ARMS: dict[str, dict[str, Any]] = {
    "activations kept": {},
    "activations computed again": {"activation_checkpointing": True},
    "whole on every GPU": {"parallel": "ddp", "activation_checkpointing": True},
}
RECIPES = ("eagle", "eagle3")
LENGTH, PROMPT = 256, 32
CPU = torch.device("cpu")
Parts = dict[str, int]


def run(quick: bool, model: str) -> dict[str, Any]:
    """In bfloat16 with float32 weights, of a random model with the shape of ``model``, a preset of the planner or a folder."""
    sizes, rows = shape(model), 1 if quick else 4
    with TemporaryDirectory(prefix="longtail-") as folder:
        path = Path(folder)
        write_model(sizes, path)
        arms = {name: _compared(measured_update, path, sizes, learner(name), rows) for name in ARMS}
        steps, sessions = (
            {name: _compared(measure, path, sizes, name, LENGTH * rows) for name in RECIPES}
            for measure in (measured_drafter_step, measured_drafter_session)
        )
    drafters = {"drafter_step": steps, "drafter_session": sessions}
    return {"model": model, "parameters": sizes.parameters, "tokens": rows * LENGTH, "arms": arms, **drafters}


def learner(arm: str) -> LearnerConfig:
    return LearnerConfig(**{"parallel": "fsdp", "precision": "bfloat16", "packed": True} | ARMS[arm])


def _compared(measure: Any, *arguments: Any) -> dict[str, Any]:
    """In a process of its own, so that one measurement leaves nothing to the next."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_tell, args=(there, measure, arguments), daemon=True)
    process.start()
    there.close()
    measured, computed = here.recv()
    process.join()
    parts = {name: _figures(measured[name], computed[name]) for name in measured}
    return parts.pop("all") | {"parts": parts}


def _figures(measured: int, computed: int) -> dict[str, float]:
    sizes = {"measured_gb": round(measured / GB, 3), "predicted_gb": round(computed / GB, 3)}
    return sizes | {"predicted_over_measured": round(computed / measured, 3)}


def _tell(told: Connection, measure: Any, arguments: tuple[Any, ...]) -> None:
    told.send(measure(*arguments))


def measured_update(folder: Path, sizes: Shape, how: LearnerConfig, rows: int) -> tuple[Parts, Parts]:
    """Bytes, counted and computed, of an update with two micro-batches of ``rows`` responses each, on one rank."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous-{id(how)}", rank=0, world_size=1)
    algorithm = AlgorithmConfig(kl_coefficient=0.0, tokens_per_microbatch=rows * LENGTH)
    forwards: list[int] = []
    whole = load_model(folder, torch.float32) if how.parallel == "ddp" else None
    with LiveBytes() as live:
        policy = _policy(folder, how, whole)
        weights = sum(local(weight).nbytes for weight in policy.weights().values())
        there = live.now
        subject = Learner(policy, algorithm, LENGTH)
        optimizer = live.now - there
        policy.forward = _counted(policy, live, forwards)  # type: ignore[method-assign]
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(min(1000, sizes.vocabulary), (2 * rows, LENGTH), generator=generator).tolist()
        live.peak = live.now
        subject.update([TrainingRow(tuple(line), PROMPT, 1.0, (-5.0,) * (LENGTH - PROMPT)) for line in tokens], None, 0)
    gradients = sum(local(weight.grad).nbytes for weight in policy.trained().values() if weight.grad is not None)
    dist.destroy_process_group()
    kept = memory.states(sizes, how, 1, reference=False)
    passing = memory.passes(sizes, how, rows * LENGTH)
    measured = {
        "weights": weights,
        "optimizer": optimizer,
        "gradients": gradients,
        "activations": forwards[-1],
        "all": live.peak + (weights if whole else 0),
    }
    names = {"weights": "weights (float32)", "optimizer": "optimizer", "gradients": "gradients", "activations": "activations"}
    computed = {name: (kept | passing)[part] for name, part in names.items()} | {"all": sum(kept.values()) + sum(passing.values())}
    return measured, computed


def _policy(folder: Path, how: LearnerConfig, whole: PreTrainedModel | None) -> Policy:
    assert dist.group.WORLD
    if whole:
        return ReplicatedPolicy(whole, how, 1.0, CPU, dist.group.WORLD, False)
    return ShardedPolicy(folder, how, 1.0, CPU, dist.group.WORLD, False)


def _counted(policy: Policy, live: LiveBytes, kept: list[int]) -> Any:
    """``policy.forward``, which tells ``kept`` what there is more after it than before."""
    forward = policy.forward

    def counted(*arguments: Any) -> LogprobsAndEntropies:
        before = live.now
        found = forward(*arguments)
        kept.append(live.now - before)
        return found

    return counted


def measured_drafter_step(folder: Path, sizes: Shape, name: str, tokens: int) -> tuple[Parts, Parts]:
    """Bytes, counted and computed, of a drafter's states and of one training step on a response of so many ``tokens``."""
    make = _drafter_training(folder, sizes, name, tokens)
    with LiveBytes() as live:
        trainer, batch, states = _trained_once(live, make)
        trainer.micro_step(batch)
    step = drafter_memory.step(sizes, tokens=tokens, **_how(trainer))
    return _drafter_parts(trainer, sizes, {"states": states, "step": live.peak - states}, step)


def measured_drafter_session(folder: Path, sizes: Shape, name: str, tokens: int) -> tuple[Parts, Parts]:
    """The same of a session, up to the step after its second judgement, on a held-out response of as many tokens."""
    make, stops = _drafter_training(folder, sizes, name, tokens), iter([False] * JUDGED_FIRST[-1])
    with LiveBytes() as live:
        trainer, batch, states = _trained_once(live, make)
        del batch
        trainer.train(lambda: next(stops, True))
    session = drafter_memory.session(sizes, tokens=tokens, judged=min(tokens, EVALUATED_TOKENS), **_how(trainer))
    return _drafter_parts(trainer, sizes, {"states": states, "session": live.peak - states}, session)


def _drafter_training(folder: Path, sizes: Shape, name: str, tokens: int) -> Callable[[], SpotTrainer]:
    """Makes a trainer with two responses, one of which is held out."""
    config, recipe = Qwen2Config.from_pretrained(folder), configured_recipe(DrafterConfig(recipe=name))
    buffer, width = DataBuffer(2**40), feature_width(recipe.kind, sizes.hidden)
    for first in range(2):  # the first prompt there is may be held out
        buffer.add(0, [first, *range(1, tokens + 2)], 2, torch.randn(tokens + 1, width).bfloat16())
    ends = torch.randn(sizes.vocabulary, sizes.hidden) / sizes.hidden**0.5

    def make() -> SpotTrainer:
        spot = SpotConfig(tokens_per_microbatch=tokens, passes=2 * JUDGED_FIRST[-1])
        trainer = SpotTrainer(make_drafter(recipe.kind, config), buffer, spot, recipe)
        trainer.set_target(ends, ends)
        return trainer

    return make


def _trained_once(live: LiveBytes, make: Callable[[], SpotTrainer]) -> tuple[SpotTrainer, MicroBatch, int]:
    """And the bytes of its states, from which on ``live`` counts."""
    trainer = make()
    batch = next(trainer.one_pass())
    trainer.micro_step(batch)
    states = live.now - sum(each.nbytes for each in vars(batch).values() if isinstance(each, torch.Tensor))
    live.peak = states
    return trainer, batch, states


def _how(trainer: SpotTrainer) -> dict[str, Any]:
    recipe = trainer.recipe
    return {"kind": recipe.kind, "unroll": recipe.unroll, "half": trainer._training_rows.dtype == torch.bfloat16, "on_gpu": False}


def _drafter_parts(trainer: SpotTrainer, sizes: Shape, measured: Parts, computed: int) -> tuple[Parts, Parts]:
    """``computed``: the last of what was ``measured``."""
    how = _how(trainer)
    head = drafter_memory.target_ends(sizes, LearnerConfig(parallel="ddp")) if how["half"] else 0  # the trainer's own, in bfloat16
    expected = dict(zip(measured, (drafter_memory.states(sizes, how["kind"]) + head, computed), strict=True))
    return measured | {"all": sum(measured.values())}, expected | {"all": sum(expected.values())}


def write_model(sizes: Shape, folder: Path) -> None:
    """A random one of that shape, in bfloat16."""
    random_model(sizes, torch.bfloat16, CPU).save_pretrained(folder)
    load_tokenizer(TINY).save_pretrained(folder)
