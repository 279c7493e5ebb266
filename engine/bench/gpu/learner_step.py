"""A step of RL with a whole worker, and how long each of its phases takes."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

import torch

from engine.bench.gpu.models import folders, trainable
from engine.bench.gpu.parts import Part, Scale
from engine.cluster.worker import Worker
from engine.config import RunConfig
from engine.config.task import CountdownConfig
from engine.models.load import load_tokenizer
from engine.policy.training.training_row import TrainingRow
from engine.rollout.interface import Completion, Request, Sampling
from engine.tasks.countdown import CountdownTask

GROUP = 8
STEPS = 2
"""The first measures step times and captures graphs."""


def run(part: Part) -> None:
    """Of the largest model that fits. Rewards are made up: every other response is good."""
    for name in trainable(part):
        if _fits(part, name):
            return
        torch.cuda.empty_cache()


def _fits(part: Part, name: str) -> bool:
    try:
        _steps(part, name)
    except torch.OutOfMemoryError:
        part.found(too_large=name)
        return False
    return True


def _steps(part: Part, name: str) -> None:
    model, drafter = folders(part, name)
    with TemporaryDirectory(prefix="longtail-bench-") as folder:
        worker = Worker(0, configuration(model, drafter, part.scale), f"file://{folder}/rendezvous")
        part.found(model=name, facts=worker.facts())
        task = CountdownTask(CountdownConfig(), 0, load_tokenizer(model))
        for step in range(STEPS):
            prompts = task.prompts(step, part.scale.prompts)
            requests = [Request(number, number // GROUP, prompts[number // GROUP].tokens) for number in range(GROUP * part.scale.prompts)]
            part.found(**_step(worker, step, requests, part.scale))


def configuration(model: Path, drafter: Path, scale: Scale) -> RunConfig:
    """Of one worker that has the GPU for itself."""
    learner = {"packed": True, "activation_checkpointing": True, "precision": "float32" if scale.emulated else "bfloat16"}
    return RunConfig.model_validate(
        {
            "model": {"path": str(model)},
            "drafter": {"path": str(drafter)},
            "cluster": {"workers": 1, "learner": learner},
            "algorithm": {"prompts_per_step": scale.prompts, "group_size": GROUP, "updates_per_step": 2, "kl_coefficient": 0.0},
            "rollout": {"engine": "native", "max_new_tokens": scale.tail_tokens, "max_batch": GROUP * scale.prompts},
        }
    )


def _step(worker: Worker, step: int, requests: Sequence[Request], scale: Scale) -> dict[str, Any]:
    seconds: dict[str, float] = {}

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds[name] = round(time.perf_counter() - began, 3)

    with phase("rollout"):
        share = worker.rollout(step, requests, Sampling(max_new_tokens=scale.tail_tokens, seed=step))
    halt = Timer(scale.seconds, worker.halt, (step,))
    halt.start()
    with phase("spot training"):
        session = worker.train_drafter(step)
    halt.cancel()
    rows = [_row(completion) for completion in share.completions]
    with phase("inference"):
        inferred = worker.infer(rows)
    with phase("update and sync"):
        learned = worker.learn(rows, inferred, step)
    seconds |= {"update": round(learned.update_seconds, 3), "sync": round(learned.sync_seconds, 3)}
    tokens = {"generated": share.statistics.tokens, "trained": sum(len(row.tokens) for row in rows)}
    most = {"peak_bytes": torch.cuda.max_memory_allocated()} if torch.cuda.is_available() else {}
    return {"phases": seconds, "tokens": tokens, "sync_bytes": learned.sync_bytes, "spot_microsteps": _microsteps(session), **most}


def _microsteps(session: Any) -> int:
    return session.report.microsteps if session else 0


def _row(completion: Completion) -> TrainingRow:
    advantage = 1.0 if completion.request.id % 2 else -1.0
    return TrainingRow((*completion.request.prompt, *completion.tokens), len(completion.request.prompt), advantage, completion.logprobs)
