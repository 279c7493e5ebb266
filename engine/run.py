"""The training loop: rollout (with spot training in its tail), reward, inference, update, sync."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from engine import artifacts, checkpoint, telemetry
from engine.cluster.group import WorkerGroup, worker_group
from engine.cluster.tail import Rollout
from engine.config import RunConfig
from engine.errors import StoppedError
from engine.events import AnyEvent, CheckpointSaved, EventWriter, RunFinished, RunStopped
from engine.models.load import load_tokenizer, resolve
from engine.policy.advantages import ADVANTAGES
from engine.policy.batch import Row
from engine.preflight import check
from engine.rollout.base import Completion, Request, Sampling
from engine.tasks.base import Prompt, Task
from engine.tasks.registry import build_task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STOP = "stop"


def run(config: RunConfig, out: Path, resume: bool = False) -> None:
    """Trains to the last step. ``out`` gets events.jsonl, checkpoints/ and artifacts/; ``resume`` goes on from the newest checkpoint.

    A file ``out``/stop makes it stop at the next step boundary: it saves a checkpoint, takes the file away and raises StoppedError.
    """
    check(config)
    events = EventWriter(out / "events.jsonl")
    with worker_group(config, out / "checkpoints") as workers:
        first = _resume(workers, out) if resume else 0
        for event in telemetry.started(config, first, workers.facts):
            events.write(event)
        for event in _train(config, workers, out, first):
            events.write(event)
        for artifact in artifacts.export(config, workers, out):
            events.write(artifact)
    events.write(RunFinished(steps=config.algorithm.steps))
    events.close()


def _train(config: RunConfig, workers: WorkerGroup, out: Path, first: int) -> Iterator[AnyEvent]:
    tokenizer = load_tokenizer(resolve(config.model.path))
    task = build_task(config.task, config.seed, tokenizer)
    last = config.algorithm.steps - 1
    for index in range(first, config.algorithm.steps):
        yield from _step(config, workers, task, tokenizer, index)
        stopping = (out / STOP).exists() and index < last
        if stopping or (index + 1) % config.checkpoint.every == 0 or index == last:
            yield _save(config, workers, out, index)
        if stopping:
            yield RunStopped(step=index)
            (out / STOP).unlink(missing_ok=True)
            raise StoppedError(f"stopped after step {index}, as asked; --resume goes on from there")


def _step(config: RunConfig, workers: WorkerGroup, task: Task, tokenizer: "PreTrainedTokenizerBase", index: int) -> Iterator[AnyEvent]:
    """One RL step. Rewards of workers that are done are computed while others still generate."""
    began = time.time()
    prompts = task.prompts(index, config.algorithm.prompts_per_step)
    responses: dict[int, str] = {}
    rewards: dict[int, float] = {}

    def score(completions: Sequence[Completion]) -> None:
        for completion in completions:
            request = completion.request
            responses[request.id] = str(tokenizer.decode(list(completion.tokens), skip_special_tokens=True))
            rewards[request.id] = task.reward(prompts[request.group], responses[request.id])

    rollout = workers.rollout(index, _requests(config, index, prompts), _sampling(config), score)
    rewarded = time.time()
    ordered = [rewards[completion.request.id] for completion in rollout.completions]
    learning = workers.learn(index, _rows(config, rollout, ordered))
    published = workers.publish(index, rollout)
    step = telemetry.Step(index, began, time.time(), prompts, rollout, ordered, rewarded, learning, published)
    yield from telemetry.events(step, [responses[completion.request.id] for completion in rollout.completions])


def _requests(config: RunConfig, step: int, prompts: Sequence[Prompt]) -> list[Request]:
    """``group_size`` requests a prompt, with ids that no other step uses (they seed the sampling)."""
    size = config.algorithm.group_size
    base = step * len(prompts) * size
    return [Request(base + group * size + member, group, prompt.tokens) for group, prompt in enumerate(prompts) for member in range(size)]


def _sampling(config: RunConfig) -> Sampling:
    rollout = config.rollout
    return Sampling(
        rollout.temperature, rollout.top_p, rollout.top_k, rollout.max_new_tokens, config.seed, min_p=rollout.min_p, stop=rollout.stop
    )


def _rows(config: RunConfig, rollout: Rollout, rewards: Sequence[float]) -> list[Row]:
    grouped = torch.tensor(rewards).view(-1, config.algorithm.group_size)
    advantages = ADVANTAGES[config.algorithm.name](grouped).flatten().tolist()
    return [
        Row(
            tokens=(*completion.request.prompt, *completion.tokens),
            prompt_length=len(completion.request.prompt),
            advantage=advantage,
            rollout_logprobs=completion.logprobs,
            masked=config.algorithm.mask_truncated and completion.finish == "length",
        )
        for completion, advantage in zip(rollout.completions, advantages, strict=True)
    ]


def _save(config: RunConfig, workers: WorkerGroup, out: Path, step: int) -> CheckpointSaved:
    began = time.time()
    saved = checkpoint.save(out / "checkpoints", step, {"workers": workers.save})
    checkpoint.prune(out / "checkpoints", config.checkpoint.keep)
    return CheckpointSaved(step=step, path=str(saved.path.relative_to(out)), seconds=time.time() - began)


def _resume(workers: WorkerGroup, out: Path) -> int:
    """The step to go on with: after the newest checkpoint that verifies, or the first if there is none."""
    found = checkpoint.latest(out / "checkpoints")
    if found is None:
        return 0
    workers.load(found.path / "workers")
    return found.step + 1
