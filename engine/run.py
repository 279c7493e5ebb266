"""The training loop: rollout (with spot training in its tail), reward, inference, update, sync."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine import artifacts
from engine.checkpoint.background_saver import WORKERS, BackgroundSaver
from engine.checkpoint.run_folder import CHECKPOINTS, EVENTS, PRETRAINING, STOP
from engine.checkpoint.storage import Fence
from engine.checkpoint.verification import listed, newest
from engine.cluster.update_threads import crowded, usable_cores
from engine.cluster.worker_group import WorkerGroup, worker_group
from engine.config import RunConfig
from engine.errors import ConfigError, StoppedError
from engine.events import AnyEvent, EarlierStarts, EventWriter, Log, RunFinished, RunStopped, StartingUp, earlier_starts
from engine.experience.asynchronous import gather_ahead
from engine.experience.collection import Experience, gather, text_of
from engine.experience.evaluation import evaluate
from engine.experience.over_sampling import gather_over_sampled
from engine.models.load import load_tokenizer, resolve
from engine.policy.algorithms.credit_assignment import advantages, training_rows
from engine.policy.training.training_row import Inferred, TrainingRow
from engine.preflight import check
from engine.pretraining.rounds import Pretraining, pretrains
from engine.rollout.engine_choice import choose_engine
from engine.tasks.given_responses import GivenResponses
from engine.tasks.registry import build_task
from engine.tasks.task import Task
from engine.telemetry import step_events

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def run(
    config: RunConfig,
    out: Path,
    resume: bool = False,
    on_event: Callable[[AnyEvent], None] | None = None,
    take_over: bool = False,
) -> None:
    """Trains to the last step. ``out`` gets events.jsonl, checkpoints/ and artifacts/; ``resume`` goes on from the newest checkpoint.
    ``on_event`` sees each event as it is written; for ``take_over`` see EventWriter. ConfigError if there are checkpoints and it is not to
    resume: those of two runs would get mixed up.

    A file ``out``/stop makes it stop at the next step boundary: it saves a checkpoint, takes the file away and raises StoppedError.
    """
    out = out.absolute()
    if not resume and listed(out / CHECKPOINTS):
        raise ConfigError(f"--out: {out} has checkpoints of a run; add --resume to go on with that, or choose another folder")
    with EventWriter(out / EVENTS, on_event, take_over) as events:
        chosen, reason = choose_engine(config)
        check(chosen)
        with closing(_events(chosen, reason, out, resume, events)) as told:
            for event in told:
                events.write(event)
        events.write(RunFinished(steps=config.algorithm.steps))


def _events(config: RunConfig, reason: str, out: Path, resume: bool, written: EventWriter) -> Generator[AnyEvent]:
    """``written``: where they go, which within a step hears of its progress at once."""
    fence = written.fence
    before = earlier_starts(out / EVENTS) if resume else EarlierStarts()
    yield StartingUp(phase="starting_workers")
    if before.device not in ("", "cpu"):
        config = config.on_gpus_again()
    has_had_room = before.begun or (resume and has_begun(out))
    with (
        worker_group(config, out / CHECKPOINTS, has_had_room, partial(_placed, written)) as workers,
        BackgroundSaver(config.checkpoint, workers, out, fence) as saver,
    ):
        yield StartingUp(phase="measuring_costs")
        workers.measure_costs()
        found = newest(out / CHECKPOINTS) if resume else None
        if found:
            workers.load(found.path / WORKERS)
        first = found.step + 1 if found else 0
        yield from step_events.started(config, first, workers.facts, reason, found.skipped if found else ())
        if warning := crowded(config, workers.facts["device"], usable_cores()):
            yield Log(level="warning", message=warning)
        if found is None and pretrains(config):
            yield from _pretrain(config, workers, out, resume, fence)
        if first < config.algorithm.steps:
            workers.on_responses = step_events.first_rollout(config, written.write)
        yield from _train(config, workers, saver, out, first)
        yield from artifacts.export(config, workers, out, fence)


def _placed(events: EventWriter, device: str) -> None:
    events.write(StartingUp(phase="starting_workers", device=device))


def has_begun(out: Path) -> bool:
    """Whether there is anything to go on from, be it rounds of pretraining."""
    return any(map(listed, (out / CHECKPOINTS, out / PRETRAINING)))


def _pretrain(config: RunConfig, workers: WorkerGroup, out: Path, resume: bool, fence: Fence) -> Iterator[AnyEvent]:
    tokenizer, given = load_tokenizer(resolve(config.model.path)), config.drafter.pretrain_responses
    longest = config.rollout.max_prompt_tokens + config.rollout.max_new_tokens
    source = GivenResponses(given, tokenizer, longest, config.seed) if given else build_task(config.task, config.seed, tokenizer)
    return Pretraining(config, workers, source, out, fence).run(out / STOP, resume)


def _train(config: RunConfig, workers: WorkerGroup, saver: BackgroundSaver, out: Path, first: int) -> Iterator[AnyEvent]:
    tokenizer = load_tokenizer(resolve(config.model.path))
    task = build_task(config.task, config.seed, tokenizer)
    last = config.algorithm.steps - 1
    for index in range(first, config.algorithm.steps):
        yield from _step(config, workers, task, tokenizer, index)
        workers.on_responses = None
        yield from saver.written()
        stopping = (out / STOP).exists() and index < last
        if stopping or (index + 1) % config.checkpoint.every == 0 or index == last:
            yield from saver.save(index)
        if stopping:
            yield from saver.wait()
            yield RunStopped(step=index)
            (out / STOP).unlink(missing_ok=True)
            raise StoppedError(f"stopped after step {index}, as asked; --resume goes on from there")
    yield from saver.wait()
    (out / STOP).unlink(missing_ok=True)  # too late to be granted, it must not stop a later attempt with more steps


def _step(config: RunConfig, workers: WorkerGroup, task: Task, tokenizer: "PreTrainedTokenizerBase", index: int) -> Iterator[AnyEvent]:
    """One RL step."""
    began = time.time()
    scheduling = config.rollout.scheduling
    gathering = gather_over_sampled if scheduling.over_sampling > 1 else gather_ahead if scheduling.asynchronous else gather
    experience = gathering(config, workers, task, tokenizer, index)
    rows, inferred = _credited(config, workers, experience)
    inferred_at = time.time()
    learning = workers.learn(index, rows, inferred)
    published = workers.publish(index, experience.rollout)
    every, done = config.evaluation.every, index + 1
    evaluates = every > 0 and (done % every == 0 or done == config.algorithm.steps)
    evaluation = evaluate(config, workers, task, tokenizer) if evaluates else None
    ended, usage = time.time(), workers.usage()
    taught = {place: row.advantage for place, row in zip(experience.kept, rows, strict=True)}
    step = step_events.StepRecord(index, began, ended, experience, inferred_at, learning, published, evaluation, usage, taught)
    yield from step_events.events(step, partial(text_of, tokenizer))


def _credited(config: RunConfig, workers: WorkerGroup, experience: Experience) -> tuple[list[TrainingRow], list[Inferred] | None]:
    """The step's rows with what each of them teaches, which says what is to be inferred; unless that is part of the reward."""
    completions = [experience.rollout.completions[place] for place in experience.kept]
    rows, requests = training_rows(config, completions), [completion.request for completion in completions]
    rewards = [experience.rewards[place] for place in experience.kept]
    inferred = workers.infer(rows, requests) if config.algorithm.kl_in_reward else None
    taught = advantages(config, rows, rewards, inferred)
    rows = [replace(row, advantage=value) for row, value in zip(rows, taught, strict=True)]
    return rows, inferred or workers.infer(rows, requests)
