"""Training the drafter before the first step, in rounds: the target writes, every worker trains a copy on that, and they are averaged."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from engine.checkpoint import storage
from engine.checkpoint.run_folder import PRETRAINING
from engine.checkpoint.verification import newest
from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig
from engine.drafter.held_out_evaluation import LOOK_AHEAD, Judged
from engine.drafter.kind import RECIPE_KINDS
from engine.errors import ConfigError, DataError, StoppedError
from engine.events import AnyEvent, DrafterPretrained, Log, RunStopped, StartingUp
from engine.experience.collection import requests_for, sampling
from engine.models.load import resolve_drafter
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.schedule import TRAINING, PretrainingSchedule
from engine.rollout.interface import Request
from engine.tasks.given_responses import RAISED_BY, GivenResponses

if TYPE_CHECKING:
    from engine.tasks.task import Task

STATE, WORKERS = "state.json", "workers"
FIRST_ROUND = 10**6
"""Behind the steps of a run: its own prompts are others, and so is their noise."""
RESPONSES, SIBLINGS, LEAST_PROMPTS = 64, 2, 8
"""That a worker writes in a round, at most, and to a prompt: siblings share its prefill, but at temperature 0 they are all the same."""
LEAST_SECONDS = 5.0
APART, AVERAGING = 8.0, 0.05
"""Seconds for which workers train copies of their own before these are averaged, and the share of the time that this takes at most."""
MOST_PROMPTS = 4096
LEAST_TRAINING = 0.02
"""Of all its time, in a round without writing: held-out drafts do not gain in seconds."""
WRITING = 0.4
"""Share of all its time after which the first writing ends: a drafter that has less than half of it left learns little."""


def pretrains(config: RunConfig) -> bool:
    """Whether the drafter of ``config`` is pretrained: with ``auto`` only where none was found, or where that is all there is to do."""
    drafter = config.drafter
    found = drafter.path == "auto" and resolve_drafter("auto", config.model.path, RECIPE_KINDS[drafter.recipe]) is not None
    return drafter.pretrain_minutes > 0 and not (found and config.algorithm.steps)


@dataclass(frozen=True)
class PretrainingState:
    """Between two rounds, or before the first. ``first``: seconds that the first responses took; ``writing``: for which the slowest worker
    wrote in the last round that had any; ``vocabulary``: None for all tokens. ``asked``: requests by now, to ``workers`` workers;
    ``dropped``: whether one of them no longer has all their responses; ``shuffled``: earlier versions read given ones in a file's order."""

    schedule: PretrainingSchedule
    first: float = 0.0
    round: int = 0
    responses: int = 0
    response_tokens: int = 0
    vocabulary: tuple[int, ...] | None = None
    drafter_version: int = 0
    writing: float = 0.0
    asked: int = 0
    workers: int = 0
    dropped: bool = False
    shuffled: bool = True


class Pretraining:
    """What ``drafter.pretrain_minutes`` asks for. It is saved below ``out`` after the first responses and every round, and goes on from
    there."""

    def __init__(
        self, config: RunConfig, workers: WorkerGroup, source: "Task | GivenResponses", out: Path, fence: storage.Fence = storage.unfenced
    ) -> None:
        """``source``: prompts for the target to respond to, or prompts with responses."""
        self._config, self._workers, self._source = config, workers, source
        self._folder, self._fence = out / PRETRAINING, fence
        self._state = PretrainingState(PretrainingSchedule(self._limit(0.0)))

    def run(self, stop: Path, resume: bool) -> Iterator[AnyEvent]:
        """Rounds until the time is over or held-out responses gain no more. StoppedError, after a round or the first responses, if the file
        ``stop`` appears."""
        if not (resume and self._resumed()):
            yield StartingUp(phase="first_responses")
            yield from self._alarms(self._begin())
            yield self._begun()
            self._save()  # the first responses may have taken hours
            yield from self._stopped(stop)
        if not self._over:
            yield StartingUp(phase="first_round")
        while not self._over:
            shares, judged = self._round()
            yield from self._alarms(shares)
            yield self._event(shares, judged)
            self._save()
            yield from self._stopped(stop)
        self._workers.end_pretraining()

    @property
    def _over(self) -> bool:
        """After one round at least."""
        return self._state.schedule.done and self._state.drafter_version > 0

    def _stopped(self, stop: Path) -> Iterator[RunStopped]:
        """StoppedError if that is asked for and not all is done."""
        if stop.exists() and not self._state.schedule.done:
            yield RunStopped(step=-1)
            stop.unlink(missing_ok=True)
            raise StoppedError("stopped while the drafter was being pretrained, as asked; --resume goes on from there")

    def _begin(self) -> list[PretrainingRound]:
        """The first responses, and prompts, decide on the vocabulary; where responses are given, all of them do."""
        began = time.monotonic()
        requests = self._requests(0)
        written = self._workers.pretrain(0, requests, sampling(self._config), None, WRITING * self._limit(0.0))
        vocabulary = self._workers.begin_pretraining(self._expected_tokens())
        spent = time.monotonic() - began
        schedule = PretrainingSchedule(self._limit(spent), spent=spent)
        self._state = replace(self._written(written, len(requests)), round=1, schedule=schedule, first=spent, vocabulary=vocabulary)
        return written

    def _limit(self, first: float) -> float:
        """Seconds, of which at least as many are for training as the ``first`` responses took, if these could not end in time: at the end
        of its time it learns nothing."""
        return max(60 * self._config.drafter.pretrain_minutes, 2 * first)

    def _begun(self) -> Log:
        state = self._state
        chosen = f"{len(state.vocabulary):,} of {self._workers.vocabulary:,} tokens" if state.vocabulary else "all tokens"
        told = f"{state.responses} responses after {state.schedule.spent:.0f} s; drafts are of {chosen}"
        if isinstance(self._source, GivenResponses) and self._source.left_out:
            told += f"; rows of the file left out, as their prompts are too long or have no tokens: {self._source.left_out}"
        if isinstance(self._source, GivenResponses) and self._source.cut:
            told += f"; responses cut where they have {self._source.longest} tokens with their prompts: {self._source.cut}"
            told += f" ({RAISED_BY} raises that)"
        return Log(level="info", message=told)

    def _alarms(self, shares: Sequence[PretrainingRound]) -> Iterator[Log]:
        """What workers noticed while they wrote, each once; there is no step yet for an alarm to be of."""
        for _, message in dict.fromkeys(alarm for share in shares for alarm in share.alarms):
            yield Log(level="warning", message=message)

    def _round(self) -> tuple[list[PretrainingRound], Judged]:
        """Workers write, and train. In the first round, before which they have written, in the last one, and once they have all that was
        given, they only train."""
        state, began = self._state, time.monotonic()
        left = max(state.schedule.end - state.schedule.spent, LEAST_SECONDS)
        writes = state.drafter_version > 0 and not self._all_held
        writing = state.writing if writes else 0.0
        training = max(TRAINING * state.writing, LEAST_SECONDS, 0.0 if writes else LEAST_TRAINING * state.schedule.limit)
        last = state.drafter_version > 0 and writing + training > left
        requests = self._requests(state.round) if writes and not last else []
        shares = self._pretrain(requests, state.schedule, writing if requests else 0.0)  # who has written early trains until all have
        written = time.monotonic() - began
        seconds = left if last else min(left, written + training)
        if requests and left - written < LEAST_SECONDS:
            seconds = self._extended(written)
        shares = self._trained(shares, began, seconds)
        if not (any(share.microsteps for share in shares) or state.drafter_version):  # later ones may have had time to write only
            raise DataError(
                "the drafter has nothing to be pretrained on: there are too few prompts (8 a worker at least), or responses of one token"
            )
        version, judged = self._workers.publish_pretrained([share.microsteps for share in shares])
        schedule = self._state.schedule.after(state.schedule.spent + time.monotonic() - began, judged.accepted)
        self._state = replace(self._written(shares, len(requests)), round=state.round + 1, schedule=schedule, drafter_version=version)
        return shares, judged

    def _extended(self, written: float) -> float:
        """Seconds of a round in which writing took ``written``, and left no time to train: the schedule lasts until their end. Writing can
        be far slower than in the round before, as after a resume."""
        seconds = written + max(TRAINING * written, LEAST_SECONDS)
        schedule = self._state.schedule
        self._state = replace(self._state, schedule=schedule.lasting(schedule.spent + seconds))
        return seconds

    def _pretrain(self, requests: Sequence[Request], schedule: PretrainingSchedule, seconds: float) -> list[PretrainingRound]:
        """See ``Worker.pretrain``. ConfigError if a copy of the drafter has diverged."""
        shares = self._workers.pretrain(self._state.round, requests, sampling(self._config), schedule, seconds)
        if diverged := [share.loss for share in shares if not isfinite(share.loss)]:
            rate = self._config.drafter.pretrain_learning_rate
            raise ConfigError(
                f"drafter.pretrain_learning_rate (--learning-rate): with {rate:g} the drafter's loss is {diverged[0]}; "
                "lower it, and begin anew"
            )
        return shares

    def _trained(self, shares: list[PretrainingRound], began: float, seconds: float) -> list[PretrainingRound]:
        """``shares`` with what is trained on until ``seconds`` after ``began``. Every now and then the copies are averaged: the longer they
        are trained apart, the less their average has of them."""
        schedule, apart, newest = self._state.schedule, APART if len(shares) > 1 else inf, shares
        while (passed := time.monotonic() - began) < seconds:
            if len(shares) > 1 and any(share.microsteps for share in newest):
                self._workers.average_pretrained([share.microsteps for share in newest])
                apart = max(apart, (time.monotonic() - began - passed) / AVERAGING)
            passed = time.monotonic() - began
            reached = replace(schedule, spent=schedule.spent + passed)
            newest = self._pretrain([], reached, min(apart, seconds - passed))
            shares = [share.plus(more) for share, more in zip(shares, newest, strict=True)]
            if not any(share.microsteps for share in newest):
                break
        return shares

    def _written(self, shares: Sequence[PretrainingRound], asked: int) -> PretrainingState:
        """After ``asked`` requests more. Rows of a file that are read again are no new responses."""
        state, new = self._state, () if self._all_read else shares
        responses = state.responses + sum(share.responses for share in new)
        return replace(
            state,
            responses=min(responses, len(self._source)) if isinstance(self._source, GivenResponses) else responses,
            response_tokens=state.response_tokens + sum(share.response_tokens for share in new),
            writing=max(share.writing for share in shares) or state.writing,
            asked=state.asked + asked,
            workers=self._config.cluster.workers,
            dropped=state.dropped or any(share.dropped for share in shares),
        )

    @property
    def _all_read(self) -> bool:
        """Whether all rows that were given have been read."""
        return isinstance(self._source, GivenResponses) and self._state.asked >= len(self._source)

    @property
    def _all_held(self) -> bool:
        """Whether the workers have all that was given."""
        return self._all_read and not self._state.dropped

    def _requests(self, number: int) -> list[Request]:
        """Those of a round, for all workers."""
        siblings = SIBLINGS if self._config.rollout.temperature > 0 else 1
        most = max(min(RESPONSES, self._config.rollout.max_batch), LEAST_PROMPTS * siblings)  # of fewer none may be left to train on
        responses = most * self._config.cluster.workers
        if isinstance(self._source, GivenResponses):
            return self._source.requests(self._state.asked, responses)
        place = FIRST_ROUND + number
        return requests_for(place, 0, self._source.prompts(place, -(-responses // siblings)), siblings)

    def _expected_tokens(self) -> Counter[int]:
        """How often tokens occur in all that is given; else in many prompts: responses to them repeat their rare words."""
        if isinstance(self._source, GivenResponses):
            return self._source.token_counts
        return Counter(token for prompt in self._source.prompts(FIRST_ROUND, MOST_PROMPTS) for token in prompt.tokens)

    def _event(self, shares: Sequence[PretrainingRound], judged: Judged) -> DrafterPretrained:
        state = self._state
        microsteps = [share.microsteps for share in shares]
        return DrafterPretrained(
            round=state.round - 1,
            seconds=state.schedule.spent,
            limit=state.schedule.limit,
            end=state.schedule.end,
            done=state.schedule.done,
            responses=state.responses,
            response_tokens=state.response_tokens,
            microsteps=sum(microsteps),
            tokens=sum(share.tokens for share in shares),
            loss=fmean([share.loss for share in shares], microsteps) if any(microsteps) else None,
            held_out=judged.accepted,
            top1=judged.top1,
            top3=judged.top3,
            accept_length=1 + LOOK_AHEAD * judged.accepted,
            vocabulary=len(state.vocabulary) if state.vocabulary else self._workers.vocabulary,
            drafter_version=state.drafter_version,
        )

    def _save(self) -> None:
        parts = {STATE: asdict(self._state), WORKERS: self._workers.write_pretraining}
        storage.save(self._folder, self._state.round, parts, self._fence)
        storage.prune(self._folder, 1)

    def _resumed(self) -> bool:
        """Whether there was something to go on from."""
        found = newest(self._folder)
        if found is None:
            return False
        state: dict[str, Any] = storage.read(found.path / STATE)
        vocabulary = tuple(state["vocabulary"]) if state["vocabulary"] else None
        limit = self._limit(state.get("first", 0.0))  # more or fewer minutes may be wanted now
        judged_anew = {"best": 0.0, "flat": 0}  # by other held-out responses, if the buffer had dropped the first ones
        schedule = PretrainingSchedule(**state["schedule"] | {"limit": limit} | judged_anew)
        known = state | {"schedule": schedule, "vocabulary": vocabulary, "shuffled": True}
        fewer = state.get("workers", 0) > self._config.cluster.workers
        if isinstance(self._source, GivenResponses) and (fewer or "shuffled" not in state):
            known |= dict.fromkeys(("asked", "responses", "response_tokens"), 0)  # nobody knows which of them are gone
        self._state = PretrainingState(**known)
        self._workers.load_pretraining(found.path / WORKERS, vocabulary, self._state.drafter_version)
        return True
