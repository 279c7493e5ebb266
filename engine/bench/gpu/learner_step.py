"""A step of RL with a whole worker, and how long each of its phases takes."""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

import torch
import torch.distributed as dist

from engine.bench.gpu.models import folders
from engine.bench.gpu.parts import Part, Scale
from engine.bench.gpu.trained_models import GROUP, OFFLOADED, Trained, choose, configuration, planned
from engine.cluster import host_memory
from engine.cluster.worker import Worker
from engine.config.task import CountdownConfig
from engine.models.load import load_tokenizer
from engine.policy.training.training_row import TrainingRow
from engine.rollout.interface import Completion, Request, Sampling
from engine.tasks.countdown import CountdownTask

STEPS = 2
"""The first measures step times and captures graphs."""


def run(part: Part) -> None:
    """Of the largest model that fits, offloaded to the host if need be; then of the largest one that fits without, if there is as much time
    left as the first has taken. Rewards are made up: every other response is good."""
    chosen, steps = choose(part.scale), dict[str, Any]()
    part.found(left_out=dict(chosen.left_out), steps=steps)
    took = 0.0
    for trained in chosen.trained:
        if not part.has(took):
            part.found(left_out=part.result["left_out"] | {str(trained): "there was no time left"})
            return
        began = time.monotonic()
        if not _fits(part, trained, steps):
            part.found(left_out=part.result["left_out"] | {str(trained): "the memory of GPU or host ran out"})
        gc.collect()
        torch.cuda.empty_cache()
        took = time.monotonic() - began


def _fits(part: Part, trained: Trained, steps: dict[str, Any]) -> bool:
    try:
        _steps(part, trained, steps.setdefault(str(trained), {"offloaded": trained.way == OFFLOADED}))
    except RuntimeError as error:  # that of pinned memory is no torch.OutOfMemoryError
        if "out of memory" not in str(error):
            raise
        return False
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return True


def _steps(part: Part, trained: Trained, found: dict[str, Any]) -> None:
    scale = part.scale
    if torch.cuda.is_available():
        memory = planned(scale, trained, torch.cuda.mem_get_info()[0])
        found["planned_bytes"] = {"gpu": max(memory.phases.values()), "host": memory.host}
        torch.cuda.reset_peak_memory_stats()
    free, (model, drafter) = host_memory.free(), folders(part, trained.name)
    with TemporaryDirectory(prefix="longtail-bench-") as folder:
        worker = Worker(0, configuration(model, drafter, scale, trained.way), f"file://{folder}/rendezvous")
        found["facts"] = worker.facts()
        part.found()
        task = CountdownTask(CountdownConfig(), 0, load_tokenizer(model))
        for step in range(STEPS):
            prompts = task.prompts(step, scale.prompts)
            requests = [Request(number, number // GROUP, prompts[number // GROUP].tokens) for number in range(GROUP * scale.prompts)]
            found |= _step(worker, step, requests, scale) | {"host_bytes": free - host_memory.free()}
            part.found()


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
