"""What happened in a step, as events. Pure: results in, events out."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from math import isfinite, nan
from statistics import fmean, pstdev

from engine.cluster.distributed_rollout.driver import Rollout
from engine.cluster.spot_training.drafter_versions import Published
from engine.cluster.worker_group import Learning
from engine.config import RunConfig
from engine.events import (
    Alarm,
    AnyEvent,
    Decoding,
    DrafterTrained,
    Log,
    RolloutFinished,
    RunStarted,
    Sample,
    Speculation,
    StartingUp,
    StepFinished,
    WorkerSpan,
)
from engine.experience.collection import Experience
from engine.experience.evaluation import RIGHT, Evaluation
from engine.telemetry.decode_savings import decode_savings
from engine.telemetry.learning_signal import learning_signal
from engine.telemetry.text_by_source import Decode, text_by_source

PACKAGES = ("torch", "transformers", "ray", "numpy")


@dataclass(frozen=True)
class StepRecord:
    """Everything that one RL step brought; times are seconds since the epoch. ``advantages``: of the responses learned from, by index."""

    index: int
    began: float
    ended: float
    experience: Experience
    inferred: float
    learning: Learning
    published: Published | None
    evaluation: Evaluation | None = None
    usage: Mapping[str, float] = field(default_factory=dict)
    advantages: Mapping[int, float] = field(default_factory=dict)

    @property
    def group_size(self) -> int:
        return len(self.experience.responses) // len(self.experience.prompts)

    @property
    def synced(self) -> float:
        """When every engine had the new weights."""
        return self.evaluation.began if self.evaluation else self.ended


def started(
    config: RunConfig, first_step: int, facts: Mapping[str, str], engine_reason: str = "", skipped: Sequence[str] = ()
) -> Iterator[AnyEvent]:
    """The first events of an attempt. ``facts``: see ``Worker.facts``; ``engine_reason``: why it has the engine that ``config`` names;
    ``skipped``: what is wrong with newer checkpoints than the one that it goes on from."""
    workers = int(facts["workers"])
    yield RunStarted(
        first_step=first_step,
        steps=config.algorithm.steps,
        workers=workers,
        model_parameters=int(facts["parameters"]),
        device=facts["device"],
        packages={name: version(name) for name in PACKAGES},
        rollout_engine=config.rollout.engine,
        engine_reason=engine_reason,
    )
    if workers < config.cluster.workers:
        yield Log(
            level="warning", message=f"the cluster has room for {workers} of {config.cluster.workers} workers: the run goes on with those"
        )
    for fault in skipped:
        yield Log(level="warning", message=f"a checkpoint is not usable, so that the run goes on from the one before: {fault}")
    yield Log(level="info", message=f"responses are generated in {facts['dtype']} (model.dtype: {config.model.dtype})")
    if "graphs" in facts:
        yield Log(level="info", message=facts["graphs"])


def first_rollout(config: RunConfig, write: Callable[[AnyEvent], None]) -> Callable[[int], None]:
    """Tells how many responses of the first rollout are there; at first, that there are none. When all are, the update has begun."""
    total = config.algorithm.prompts_per_step * config.algorithm.group_size
    last = 0
    write(StartingUp(phase="first_rollout", total=total))

    def tell(done: int) -> None:
        nonlocal last
        if done > last:
            write(StartingUp(phase="first_rollout", done=min(done, total), total=total))
            last = done

    return tell


def events(step: StepRecord, decode: Decode) -> Iterator[AnyEvent]:
    """The events of a step; the one that sums it up comes last. ``decode`` makes text of tokens."""
    yield from _spans(step)
    yield from _decoding(step)
    rollout = step.experience.rollout
    completions = rollout.completions
    yield RolloutFinished(
        step=step.index,
        lengths=[len(completion.tokens) for completion in completions],
        truncated=sum(completion.finish == "length" for completion in completions),
        rewards=step.experience.rewards,
    )
    statistics = rollout.statistics
    if statistics.arms:
        yield Speculation(
            step=step.index,
            arms=statistics.arms,
            drafted_by_position=statistics.drafted_by_position,
            accepted_by_position=statistics.accepted_by_position,
            ngram_drafted_by_position=statistics.ngram_drafted_by_position,
            ngram_accepted_by_position=statistics.ngram_accepted_by_position,
            untrained=rollout.untrained,
        )
    if rollout.notice:
        yield Log(level="info", message=f"step {step.index}: {rollout.notice}")
    alarms = [*statistics.alarms, *(step.evaluation.alarms if step.evaluation else ())]
    for code, message in dict.fromkeys(alarms):  # workers notice the same
        yield Alarm(step=step.index, code=code, message=message)
    if skipped := int(step.learning.metrics.get("skipped_updates", 0)):
        left_out = "an update was" if skipped == 1 else f"{skipped} updates were"
        message = f"{left_out} left out, since the gradient is not finite; if that goes on the run ends: lower the learning rate"
        yield Alarm(step=step.index, code="update_skipped", message=message)
    for published in (step.published, step.evaluation and step.evaluation.rolled_back):
        if published:
            yield _drafter(step, published)
    yield from _samples(step, decode)
    yield _summary(step)


def _spans(step: StepRecord) -> Iterator[WorkerSpan]:
    rollout = step.experience.rollout
    for span in rollout.spans:
        yield WorkerSpan(step=step.index, worker=span.worker, state=span.activity, start=span.start, end=span.end)
    for worker in sorted({span.worker for span in rollout.spans}):
        yield WorkerSpan(step=step.index, worker=worker, state="UPDATE", start=rollout.ended, end=step.synced)
        if step.evaluation:
            yield WorkerSpan(step=step.index, worker=worker, state="EVALUATION", start=step.synced, end=step.ended)


def _decoding(step: StepRecord) -> Iterator[Decoding]:
    statistics = step.experience.rollout.statistics
    for worker, moments in sorted(statistics.moments.items()):
        if moments:
            start = moments[0].time
            points = [(round(moment.time - start, 3), moment.running, moment.strategy) for moment in moments]
            marks = [(round(mark.time - start, 3), mark.what, mark.number) for mark in statistics.marks.get(worker, ())]
            yield Decoding(step=step.index, worker=worker, start=start, points=points, marks=marks)


def _drafter(step: StepRecord, published: Published) -> DrafterTrained:
    report = published.report
    was, now = (judged if isfinite(judged.accepted) else None for judged in (report.before, report.after))
    return DrafterTrained(
        step=step.index,
        drafter_version=published.version,
        published=published.accepted,
        reason=published.reason,
        microsteps=report.microsteps,
        tokens=report.tokens,
        loss=report.loss if report.microsteps else nan,
        held_out_before=report.before.accepted,
        held_out_after=report.after.accepted,
        mix_distance=report.mix_distance if report.microsteps else None,
        noise=report.noise or None,
        top1_before=was and was.top1,
        top1_after=now and now.top1,
        top3_before=was and was.top3,
        top3_after=now and now.top3,
    )


def _samples(step: StepRecord, decode: Decode) -> Iterator[Sample]:
    """The longest and the shortest response of the step, and of the longest one's group the first that is right and the first that is
    wrong: what tells them apart is what the group teaches."""
    experience, size = step.experience, step.group_size
    responses, prompts, rewards = experience.responses, experience.prompts, experience.rewards
    order = sorted(range(len(responses)), key=lambda index: len(responses[index]))
    siblings = range(order[-1] // size * size, (order[-1] // size + 1) * size)
    differing = [next((index for index in siblings if (rewards[index] >= RIGHT) is wanted), order[-1]) for wanted in (True, False)]
    for index in dict.fromkeys((order[-1], order[0], *differing)):
        completion, number = experience.rollout.completions[index], index // size
        yield Sample(
            step=step.index,
            prompt=prompts[number].text,
            response=responses[index],
            reward=rewards[index],
            pieces=text_by_source(completion, responses[index], decode),
            prompt_number=number,
            group_rewards=rewards[number * size : (number + 1) * size],
            advantage=step.advantages.get(index),
            tokens=len(completion.tokens),
            truncated=completion.finish == "length",
        )


def _summary(step: StepRecord) -> StepFinished:
    experience, learning = step.experience, step.learning
    rollout, rewards = experience.rollout, experience.rewards
    statistics, rollout_seconds = rollout.statistics, rollout.ended - step.began
    tokens = sum(len(completion.tokens) for completion in rollout.completions)
    whole = step.ended - step.began if experience.overlapping else None
    cut = [completion.finish == "length" for completion in rollout.completions]
    lengths = [len(completion.tokens) for completion in rollout.completions]
    return StepFinished(
        step=step.index,
        seconds=step.ended - step.began,
        phases={
            "rollout": rollout_seconds,
            "reward": experience.rewarded - rollout.ended,
            "inference": step.inferred - experience.rewarded,
            "update": learning.update_seconds,
            "sync": step.synced - step.inferred - learning.update_seconds,
        }
        | ({"evaluation": step.ended - step.synced} if step.evaluation else {}),
        metrics={
            "reward_mean": fmean(rewards),
            "reward_std": pstdev(rewards),
            "kept_share": len(experience.kept) / len(rewards),
            "prompt_tokens": fmean(len(completion.request.prompt) for completion in rollout.completions),
            "response_tokens": tokens / len(rollout.completions),
            "tokens_per_second": statistics.tokens / (whole or rollout_seconds),
            "generated_tokens": float(statistics.tokens),
            **({} if statistics.preemptions is None else {"preemptions": float(statistics.preemptions)}),
            **_worker_rates(rollout, whole),
            **learning_signal(rewards, lengths, cut, step.group_size),
            "accept_length": accept_length(statistics.speculative_tokens, statistics.speculative_requests),
            **decode_savings(statistics.decode_seconds, rollout.drafter_gain),
            "idle_seconds": rollout.seconds("IDLE", "TRAINING"),
            "trained_seconds": rollout.seconds("TRAINING"),
            **({"training_cost_seconds": step.published.cost} if step.published and step.published.report.microsteps else {}),
            "drafter_version": float(max(completion.drafter_version for completion in rollout.completions)),
            **experience.scheduling,
            **learning.metrics,
            **(step.evaluation.metrics if step.evaluation else {}),
            **step.usage,
        },
    )


def _worker_rates(rollout: Rollout, whole: float | None) -> dict[str, float]:
    """Tokens a second of each worker while it generates, which may take the ``whole`` step."""
    busy: defaultdict[int, float] = defaultdict(float)
    for span in rollout.spans:
        busy[span.worker] += span.end - span.start if span.activity == "BUSY" else 0.0
    known = {worker: (count, whole or busy[worker]) for worker, count in sorted(rollout.worker_tokens.items())}
    return {f"worker/{worker}/tokens_per_second": count / seconds for worker, (count, seconds) in known.items() if seconds > 0}


def accept_length(tokens: int, requests: int) -> float:
    """Tokens that a speculative target pass brings a request, its own token included; 1.0 without speculation."""
    return tokens / requests if requests else 1.0
