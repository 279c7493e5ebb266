"""Schema-true telemetry of runs that never happened: long-tailed lengths, a drafter that learns, workers that wait for the tail.

A small model of the machine (milliseconds per decode step and per drafted token) turns lengths into times, so that shares, speed-ups
and timelines fit together as in a real run. A plain and a TLT run of the same seed have the same lengths and nearly the same rewards.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

from engine.config import RunConfig
from engine.events import (
    Alarm,
    AnyEvent,
    ArmStatistics,
    ArtifactSaved,
    CheckpointSaved,
    DrafterTrained,
    Log,
    RolloutFinished,
    RunFinished,
    RunStarted,
    Sample,
    Speculation,
    StepFinished,
    WorkerSpan,
)

STEP_MS, REQUEST_MS, DRAFT_MS = 3.7, 0.12, 0.35
RESTS = 7
"""Of so many steps the last one does not train."""
BUCKETS = (1, 3, 8)
DEPTHS = {1: 7, 3: 5, 8: 3}
STRATEGIES = {0: "off", 7: "eagle d7 k3 v18", 5: "ngram d5 k1 v5", 3: "eagle d3 k1 v3"}
PHASES = {"reward": 0.03, "inference": 0.15, "update": 0.38, "sync": 0.03}


def config(speculation: bool = True, **changes: object) -> dict[str, object]:
    """The configuration of such a run: 8 prompts of 8 responses on 2 workers."""
    data = {
        "name": "countdown TLT" if speculation else "countdown plain",
        "algorithm": {"steps": 30},
        "speculation": {"enabled": speculation},
        **changes,
    }
    return RunConfig.model_validate(data).model_dump(mode="json")


def events(config: dict[str, object], steps: int | None = None, start: float = 1.8e9, artifact: Path | None = None) -> Iterator[AnyEvent]:
    """The events of ``config``'s first ``steps`` steps (all by default: then with artifact and end). ``artifact`` is written if given."""
    run = RunConfig.model_validate(config)
    total, wanted = run.algorithm.steps, run.algorithm.steps if steps is None else steps
    yield RunStarted(
        time=start, first_step=0, steps=total, workers=run.cluster.workers, model_parameters=6_231_040, device="cpu", packages={}
    )
    yield Log(time=start, level="info", message=f"policy tiny on {run.cluster.workers} workers")
    now, version = start + 6, 0
    for step in range(wanted):
        simulated = _Step(run, step, now, version)
        yield from simulated.events()
        now, version = simulated.end, simulated.version
        if (step + 1) % run.checkpoint.every == 0:
            yield CheckpointSaved(time=now, step=step, path=f"checkpoints/step-{step}", seconds=0.21)
    if wanted < total:
        return
    if artifact is not None:
        yield _artifact(artifact, version, now)
    yield RunFinished(time=now, steps=total)


def _artifact(path: Path, version: int, now: float) -> ArtifactSaved:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = random.Random(version).randbytes(50_000)
    path.write_bytes(data)
    metadata = {"drafter_version": str(version), "recipe": "eagle"}
    relative = f"{path.parent.name}/{path.name}"
    return ArtifactSaved(
        time=now,
        name=path.name,
        type="drafter",
        path=relative,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        metadata=metadata,
    )


@dataclass
class _Tally:
    """What one worker's decoding added up to."""

    seconds: float = 0.0
    pulls: int = 0
    requests: int = 0
    accepted: float = 0.0

    def add(self, batch: int, accepted: float, seconds: float) -> None:
        self.seconds += seconds
        self.pulls += 1
        self.requests += batch
        self.accepted += accepted * batch


class _Step:
    """One step: lengths, then the time that each worker needs for its share, then the rest."""

    def __init__(self, run: RunConfig, step: int, start: float, version: int) -> None:
        self.run, self.step, self.start = run, step, start
        self.random = random.Random(run.seed * 100_003 + step)
        count = run.algorithm.prompts_per_step * run.algorithm.group_size
        self.limit = run.rollout.max_new_tokens
        self.lengths = [min(self.limit, max(6, int(self.random.lognormvariate(4.0, 1.05)))) for _ in range(count)]
        solve_rate = 0.31 + 0.16 * (1 - 0.93**step)
        luck = random.Random(self.random.random() + run.speculation.enabled)
        self.rewards = [float(luck.random() < solve_rate) for _ in range(count)]
        self.learned = 1 - 0.9 ** (version + 1)
        self.tallies: dict[tuple[int, str], _Tally] = {}
        shares = [self.lengths[worker :: run.cluster.workers] for worker in range(run.cluster.workers)]
        self.busy = [self._decode(share) for share in shares]
        self.rollout = max(self.busy)
        self.phases = {"rollout": self.rollout, **{name: seconds * self.random.uniform(0.92, 1.08) for name, seconds in PHASES.items()}}
        self.end = start + sum(self.phases.values())
        self.untrained = "acceptance is flat, and so were 8 sessions" if step % RESTS == RESTS - 1 else None
        trains = run.speculation.enabled and not self.untrained
        self.trained = [max(0.0, self.rollout - busy - 0.08) if trains else 0.0 for busy in self.busy]
        self.published = max(self.trained) > 0.25 and self.random.random() < 0.8
        self.version = version + 1 if self.published else version

    def _decode(self, lengths: list[int]) -> float:
        """Seconds that one worker needs: one pass for each token, or, once few requests run, one for each accepted run of tokens."""
        seconds, position = 0.0, 0.0
        while batch := sum(length > position for length in lengths):
            bucket = max((b for b in BUCKETS if b <= batch), default=1)
            speculate = self.run.speculation.enabled and batch <= self.run.speculation.threshold and self.random.random() > 0.06
            depth = DEPTHS[bucket] if speculate else 0
            advance = 1 + sum(self._acceptance(i) for i in range(depth))
            elapsed = (STEP_MS + REQUEST_MS * batch * (1 + depth / 3) + DRAFT_MS * depth) / 1000
            self.tallies.setdefault((bucket, STRATEGIES[depth]), _Tally()).add(batch, advance - 1, elapsed)
            seconds, position = seconds + elapsed, position + advance
        return seconds

    def _acceptance(self, position: int) -> float:
        """Probability that the draft is right up to ``position``: falls with depth, rises as the drafter learns."""
        return (0.56 + 0.26 * self.learned) ** (position + 1)

    def events(self) -> Iterator[AnyEvent]:
        yield from self._spans()
        truncated = sum(length == self.limit for length in self.lengths)
        yield RolloutFinished(time=self.end, step=self.step, lengths=self.lengths, truncated=truncated)
        if self.run.speculation.enabled:
            yield self._speculation()
            if not self.untrained:
                yield self._drafter()
        yield StepFinished(time=self.end, step=self.step, seconds=self.end - self.start, phases=self.phases, metrics=self._metrics())
        yield Sample(
            time=self.end,
            step=self.step,
            prompt="3 7 25 -> 46 =",
            response="3 * 7 = 21\n25 + 21 = 46 <b>ok</b>" if self.rewards[0] else "3 + 7 = 10\n25 + 10 = 35\nback\ngive up",
            reward=self.rewards[0],
        )
        if truncated > 3:
            message = f"{truncated} of {len(self.lengths)} responses stopped at the limit of {self.limit} tokens"
            yield Alarm(time=self.end, step=self.step, code="truncated", message=message)

    def _spans(self) -> Iterator[WorkerSpan]:
        done = self.start + self.rollout
        for worker, (busy, trained) in enumerate(zip(self.busy, self.trained, strict=True)):
            states = [("BUSY", self.start, self.start + busy), ("IDLE", self.start + busy, done - trained)]
            states += [("TRAINING", done - trained, done), ("UPDATE", done, self.end)]
            for state, begin, end in states:
                if end > begin:
                    yield WorkerSpan.model_validate(
                        {"step": self.step, "worker": worker, "state": state, "start": begin, "end": end, "time": self.end}
                    )

    def _speculation(self) -> Speculation:
        drafted, accepted = [0] * max(DEPTHS.values()), [0] * max(DEPTHS.values())
        arms = []
        for (bucket, strategy), tally in sorted(self.tallies.items()):
            for position in range(0 if strategy == "off" else DEPTHS[bucket]):
                drafted[position] += tally.requests
                accepted[position] += round(tally.requests * self._acceptance(position))
            arms.append(
                ArmStatistics(
                    bucket=bucket,
                    strategy=strategy,
                    pulls=tally.pulls,
                    requests=tally.requests,
                    accepted=round(tally.accepted),
                    seconds=tally.seconds,
                )
            )
        return Speculation(
            time=self.end,
            step=self.step,
            arms=arms,
            drafted_by_position=drafted,
            accepted_by_position=accepted,
            untrained=self.untrained,
        )

    def _drafter(self) -> DrafterTrained:
        before = 2.1 - 1.1 * self.learned
        after = before - 0.04 if self.published else before + 0.02
        return DrafterTrained(
            time=self.end,
            step=self.step,
            drafter_version=self.version,
            published=self.published,
            reason="better on held-out data" if self.published else "not better on held-out data",
            microsteps=round(max(self.trained) / 0.11),
            tokens=round(max(self.trained) / 0.11) * 1024,
            loss=before,
            held_out_before=before,
            held_out_after=after,
        )

    def _metrics(self) -> dict[str, float]:
        tokens, tallies = sum(self.lengths), self.tallies.values()
        return {
            "reward_mean": fmean(self.rewards),
            "reward_std": pstdev(self.rewards),
            "response_tokens": tokens / len(self.lengths),
            "tokens_per_second": tokens / self.rollout,
            "accept_length": 1 + sum(tally.accepted for tally in tallies) / sum(tally.requests for tally in tallies),
            "idle_seconds": sum(self.rollout - busy for busy in self.busy),
            "trained_seconds": sum(self.trained),
            "loss": self.random.gauss(0, 0.02),
            "kl": 0.0004 * self.step,
            "entropy": 0.9 - 0.004 * self.step,
            "gradient_norm": self.random.uniform(0.3, 0.9),
            "clip_share": self.random.uniform(0.0, 0.02),
            "logprob_gap": self.random.uniform(1e-6, 4e-6),
            "drafter_version": float(self.version),
        }
