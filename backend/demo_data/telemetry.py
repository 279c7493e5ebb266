"""Schema-true telemetry of runs that never happened: long-tailed lengths, a drafter that learns, workers that wait for the tail.

A small model of the machine (milliseconds per decode step and per drafted token) turns lengths into times, so that shares, speed-ups
and timelines fit together as in a real run. A plain and a TLT run of the same seed have the same lengths and nearly the same rewards.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import log, log10
from pathlib import Path
from statistics import fmean, pstdev

from backend.demo_data import artifact_files, pretraining, scheduling, texts
from backend.demo_data.decoding import NGRAM, OFF, Decoder
from engine.config import RunConfig
from engine.events import (
    Alarm,
    AnyEvent,
    ArmStatistics,
    CheckpointSaved,
    Decoding,
    DrafterTrained,
    Log,
    Piece,
    RolloutFinished,
    RunFinished,
    RunStarted,
    Sample,
    Source,
    Speculation,
    StartingUp,
    StepFinished,
    WorkerSpan,
)

MODELS = {"tiny": (6_231_040, 1.0), "small": (45_000_000, 2.2), "0.5b": (494_032_768, 1.6), "1.5b": (1_543_714_304, 2.0)}
"""By the end of its path, a model's parameters, and what its decode step costs compared to that of tiny."""
LARGE = (7_615_616_512, 3.0)
RESTS = 7
"""Of so many steps the last one does not train."""
PHASES = {"reward": 0.03, "inference": 0.15, "update": 0.38, "sync": 0.03}
EVALUATION_SECONDS = 0.6
OUTCOMES = (("right_tokens", True), ("wrong_tokens", False))
HOST = "node-1"
USUAL_TOKENS = 64 * 1024
"""Responses of a step times their limit, for which PHASES are the seconds."""
SOLVED = {"countdown": 0.31, "word_problems": 0.26, "math": 0.24, "choice": 0.42, "code": 0.17}
"""Mean reward of the first step, by task."""


def config(speculation: bool = True, **changes: object) -> dict[str, object]:
    """The configuration of such a run: 8 prompts of 8 responses on 2 workers."""
    data = {
        "name": "countdown TLT" if speculation else "countdown plain",
        "algorithm": {"steps": 30},
        "speculation": {"enabled": speculation},
        **changes,
    }
    return RunConfig.model_validate(data).model_dump(mode="json")


def events(
    config: dict[str, object],
    steps: int | None = None,
    start: float = 1.8e9,
    artifacts: Sequence[Path] = (),
    first: int = 0,
    says: Sequence[str] = (),
    more_metrics: int = 0,
) -> Iterator[AnyEvent]:
    """The events of ``config``'s steps from ``first`` up to ``steps`` (all by default: then with ``artifacts``, which are written, and
    the end). ``says`` are further log lines, ``more_metrics`` so many further metrics of each step."""
    run = RunConfig.model_validate(config)
    total = run.algorithm.steps
    wanted = total if steps is None else min(steps, total)
    device, parameters = "cuda" if run.cluster.device == "cuda" else "cpu", _scale(run.model.path)[0]
    yield RunStarted(
        time=start, first_step=first, steps=total, workers=run.cluster.workers, model_parameters=parameters, device=device, packages={}
    )
    yield Log(time=start, level="info", message=f"policy {run.model.path} on {run.cluster.workers} workers")
    yield from (Log(time=start, level="warning", message=line) for line in says)
    if first == 0 and total:
        yield StartingUp(time=start + 5, phase="first_rollout", total=run.algorithm.prompts_per_step * run.algorithm.group_size)
    now, version, stopped, accepted = start + 6, first, 0, [1.0]
    for learned in pretraining.rounds(run, now) if first == 0 else ():
        yield learned
        now, version, accepted = learned.time, learned.drafter_version, [learned.accept_length]
    for step in range(first, wanted):
        simulated = _Step(run, step, now, version, more_metrics, stopped)
        yield from simulated.events()
        now, version, stopped = simulated.end, simulated.version, simulated.stopped
        accepted.append(simulated.accept_length)
        if (step + 1) % run.checkpoint.every == 0:
            yield CheckpointSaved(time=now, step=step, path=f"checkpoints/step-{step}", seconds=0.21)
    if wanted < total:
        return
    for path in artifacts:
        yield artifact_files.saved(path, run, version, fmean(accepted[-max(len(accepted) // 4, 1) :]), now)
    yield RunFinished(time=now, steps=total)


def _scale(model: str) -> tuple[int, float]:
    return next((scale for size, scale in MODELS.items() if size in model), LARGE)


def pieces(text: str, drafted: bool) -> list[Piece]:
    """As if each character were a token: drafts of three and of two, each with the target's own behind it."""
    if not drafted:
        return [Piece("target", len(text), len(text))]
    pattern: tuple[Source, ...] = ("eagle", "eagle", "eagle", "target", "ngram", "ngram", "target")
    runs = [(source, len(list(run))) for source, run in groupby(pattern[place % len(pattern)] for place in range(len(text)))]
    return [Piece(source, count, count) for source, count in runs]


class _Step:
    """One step: lengths, then the time that each worker needs for its share, then the rest."""

    def __init__(self, run: RunConfig, step: int, start: float, version: int, more_metrics: int, stopped: int) -> None:
        self.run, self.step, self.start, self.more_metrics = run, step, start, more_metrics
        self.random = random.Random(run.seed * 100_003 + step)
        count = run.algorithm.prompts_per_step * run.algorithm.group_size
        self.limit, self.pace = run.rollout.max_new_tokens, _scale(run.model.path)[1]
        typical = 4.0 + max(0.0, log(self.limit / 1024))
        drawn = [min(self.limit, max(6, int(self.random.lognormvariate(typical, 1.05)))) for _ in range(scheduling.started(run))]
        self.lengths, requests = scheduling.scheduled(run, drawn)
        self.progress = 1 - 0.93 ** (step * 60 / max(run.algorithm.steps, 60))
        gain = 0.16 * (1 - abs(log10(run.algorithm.learning_rate / 2e-5)))
        solve_rate = SOLVED.get(run.task.name, 0.3) + gain * self.progress
        luck = random.Random(self.random.random() + run.speculation.enabled)
        self.rewards = [float(luck.random() < solve_rate) for _ in range(count)]
        self.learned = 1 - 0.9 ** (version + 1)
        self.decoder = Decoder(run.speculation, step, self.learned, self.pace)
        self.tallies = self.decoder.tallies
        shares = [requests[worker :: run.cluster.workers] for worker in range(run.cluster.workers)]
        decoded = [self.decoder.decode([request.length for request in share]) for share in shares]
        self.busy, self.courses = [seconds for seconds, _ in decoded], [course for _, course in decoded]
        carried = [range(stopped if run.rollout.scheduling.partial else 0)[worker :: run.cluster.workers] for worker in range(len(shares))]
        self.marks = [scheduling.marks(run, share, len(own), busy) for share, own, busy in zip(shares, carried, self.busy, strict=True)]
        self.stopped = sum(request.stopped for request in requests)
        self.rollout = max(self.busy)
        weight = self.pace * count * self.limit / USUAL_TOKENS
        rest = {name: weight * seconds * self.random.uniform(0.92, 1.08) for name, seconds in PHASES.items()}
        self.phases = {"rollout": self.rollout, **rest}
        every, done = run.evaluation.every, step + 1
        self.evaluates = every > 0 and (done % every == 0 or done == run.algorithm.steps)
        self.updated = start + sum(self.phases.values())
        self.phases |= {"evaluation": EVALUATION_SECONDS} if self.evaluates else {}
        self.end = start + sum(self.phases.values())
        rests = step % RESTS == RESTS - 1
        trains = run.speculation.enabled and run.drafter.spot.enabled and not rests
        self.inferred = [0.3 * (self.rollout - busy) if run.algorithm.kl_in_loss else 0.0 for busy in self.busy]
        waits = [self.rollout - busy - inferred for busy, inferred in zip(self.busy, self.inferred, strict=True)]
        self.idle_seconds = sum(waits)
        self.trained = [max(0.0, wait - 0.08) if trains else 0.0 for wait in waits]
        idle = None if any(self.trained) else "no worker was idle for long enough"
        self.untrained = "acceptance is flat, and so were 8 sessions" if rests else idle
        self.published = max(self.trained) > 0.25 and self.random.random() < 0.8
        self.version = version + 1 if self.published else version

    def events(self) -> Iterator[AnyEvent]:
        yield from self._spans()
        for worker, (points, marks) in enumerate(zip(self.courses, self.marks, strict=True)):
            yield Decoding(time=self.end, step=self.step, worker=worker, start=self.start, points=points, marks=marks)
        truncated = sum(length == self.limit for length in self.lengths)
        yield RolloutFinished(time=self.end, step=self.step, lengths=self.lengths, truncated=truncated, rewards=self.rewards)
        if self.run.speculation.enabled:
            yield self._speculation()
            if any(self.trained):
                yield self._drafter()
        yield StepFinished(time=self.end, step=self.step, seconds=self.end - self.start, phases=self.phases, metrics=self._metrics())
        yield from self._samples()
        if truncated > len(self.lengths) / 20:
            message = f"{truncated} of {len(self.lengths)} responses stopped at the limit of {self.limit} tokens"
            yield Alarm(time=self.end, step=self.step, code="truncated", message=message)

    def _spans(self) -> Iterator[WorkerSpan]:
        done = self.start + self.rollout
        for worker, (busy, inferred, trained) in enumerate(zip(self.busy, self.inferred, self.trained, strict=True)):
            generated, waits = self.start + busy, self.start + busy + inferred
            states = [("BUSY", self.start, generated), ("INFERENCE", generated, waits), ("IDLE", waits, done - trained)]
            states += [("TRAINING", done - trained, done), ("UPDATE", done, self.updated), ("EVALUATION", self.updated, self.end)]
            for state, begin, end in states:
                if end > begin:
                    yield WorkerSpan.model_validate(
                        {"step": self.step, "worker": worker, "state": state, "start": begin, "end": end, "time": self.end}
                    )

    def _samples(self) -> Iterator[Sample]:
        """The first response of the first group, and the first that has another outcome."""
        group = self.rewards[: self.run.algorithm.group_size]
        mean, spread = fmean(group), pstdev(group) or 1.0
        for index in dict.fromkeys((0, next((place for place, reward in enumerate(group) if reward != group[0]), 0))):
            prompt, response = texts.sample(self.run.task.name, self.step, group[index] > 0)
            facts = {"prompt_number": 0, "group_rewards": group, "tokens": self.lengths[index], "advantage": (group[index] - mean) / spread}
            yield Sample(
                time=self.end,
                step=self.step,
                prompt=prompt,
                response=response,
                reward=group[index],
                pieces=pieces(response, self.run.speculation.enabled),
                truncated=self.lengths[index] == self.limit,
                **facts,
            )

    def _speculation(self) -> Speculation:
        deepest = max(arm.depth for _, arm in self.tallies)
        drafted, accepted, ngram_drafted, ngram_accepted = ([0] * deepest for _ in range(4))
        arms = []
        for bucket, arm in sorted(self.tallies):
            tally = self.tallies[bucket, arm]
            for position in range(arm.depth):
                drafted[position] += round(tally.requests)
                accepted[position] += round(tally.requests * self.decoder.acceptance(arm, position))
                if arm is NGRAM:
                    ngram_drafted[position] += round(tally.requests)
                    ngram_accepted[position] += round(tally.requests * self.decoder.acceptance(arm, position))
            counts = {"pulls": max(1, round(tally.pulls)), "requests": max(1, round(tally.requests)), "accepted": round(tally.accepted)}
            arms.append(ArmStatistics(bucket=bucket, strategy=arm.strategy, seconds=tally.seconds, **counts))
        return Speculation(
            time=self.end,
            step=self.step,
            arms=arms,
            drafted_by_position=drafted,
            accepted_by_position=accepted,
            ngram_drafted_by_position=ngram_drafted,
            ngram_accepted_by_position=ngram_accepted,
            untrained=self.untrained,
        )

    def _drafter(self) -> DrafterTrained:
        before = 0.2 + 0.5 * self.learned - 0.02 * (self.step % 3)
        after = before + (0.04 if self.published else -0.01)
        microsteps = max(1, round(max(self.trained) / 0.11))
        return DrafterTrained(
            time=self.end,
            step=self.step,
            drafter_version=self.version,
            published=self.published,
            reason="better on held-out data" if self.published else "not better on held-out data",
            microsteps=microsteps,
            tokens=microsteps * 1024,
            loss=2.1 - 1.1 * self.learned,
            held_out_before=before,
            held_out_after=after,
            top1_before=before + 0.1,
            top1_after=after + 0.1,
            top3_before=before + 0.2,
            top3_after=after + 0.2,
            mix_distance=self.random.uniform(0.02, 0.2),
            noise=0.008,
        )

    @property
    def accept_length(self) -> float:
        """Tokens that a pass of the target brings where something drafts; 1 where nothing does."""
        drafting = [tally for (_, arm), tally in self.tallies.items() if arm is not OFF]
        drafted = sum(tally.requests for tally in drafting)
        return 1 + sum(tally.accepted for tally in drafting) / drafted if drafted else 1.0

    def _metrics(self) -> dict[str, float]:
        tokens = sum(self.lengths)
        return {
            "reward_mean": fmean(self.rewards),
            "reward_std": pstdev(self.rewards),
            "kept_share": self.random.uniform(0.6, 0.9),
            "response_tokens": tokens / len(self.lengths),
            "tokens_per_second": tokens / self.rollout,
            "generated_tokens": float(tokens),
            **self._signal(),
            **{f"worker/{worker}/tokens_per_second": tokens / len(self.busy) / busy for worker, busy in enumerate(self.busy) if busy > 0},
            "accept_length": self.accept_length,
            "idle_seconds": self.idle_seconds,
            "trained_seconds": sum(self.trained),
            "loss": self.random.gauss(0, 0.02),
            **({"kl": 0.012 * self.progress} if self.run.algorithm.kl_coefficient else {}),
            "entropy": 0.9 - 0.3 * self.progress,
            "gradient_norm": self.random.uniform(0.3, 0.9),
            "clip_share": self.random.uniform(0.0, 0.02),
            "logprob_gap": self.random.uniform(1e-6, 4e-6),
            "learning_rate": self.run.algorithm.learning_rate * min(1.0, (self.step + 1) / 3),
            "drafter_version": float(self.version),
            **self._evaluation(),
            f"system/{HOST}/cpu_percent": self.random.uniform(60, 95),
            f"system/{HOST}/memory_gb": 6 + 0.01 * self.step,
            f"system/{HOST}/memory_percent": 25 + 0.004 * self.step,
            f"system/{HOST}/gpu0_percent": self.random.uniform(40, 90),
            f"system/{HOST}/gpu0_memory_gb": 61.0,
        } | {f"layer/{number}/gradient_norm": self.random.lognormvariate(-1, 0.5) for number in range(self.more_metrics)}

    def _signal(self) -> dict[str, float]:
        """As ``engine.telemetry.learning_signal`` has it, which this must not import: it comes with torch."""
        size, right = self.run.algorithm.group_size, [reward >= 1 for reward in self.rewards]
        groups = [right[first : first + size] for first in range(0, len(right), size)]
        by_outcome = {
            name: [length for length, one in zip(self.lengths, right, strict=False) if one is wanted] for name, wanted in OUTCOMES
        }
        return {
            "all_right_share": fmean(map(all, groups)),
            "all_wrong_share": fmean(not any(group) for group in groups),
            "truncated_share": fmean(length == self.limit for length in self.lengths),
        } | {name: fmean(lengths) for name, lengths in by_outcome.items() if lengths}

    def _evaluation(self) -> dict[str, float]:
        if not self.evaluates:
            return {}
        right = 0.3 + 0.2 * self.progress
        figures = {"reward": right, "pass_at_1": right, f"pass_at_{self.run.evaluation.samples}": right + 0.2, "response_tokens": 150.0}
        return {f"eval/{name}": value for name, value in figures.items()}
