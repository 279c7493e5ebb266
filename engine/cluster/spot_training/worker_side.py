"""The drafter's side of a worker: it remembers responses with their hidden states and trains while others still generate."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.checkpoint import storage
from engine.checkpoint.buffer_files import BufferFiles
from engine.checkpoint.drafter_snapshots import SessionProgress, Snapshot, SnapshotWriter, newest_snapshot
from engine.cluster import host_memory
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.config import RunConfig
from engine.drafter.data_buffer import DataBuffer, Entry, Lost, enough_bytes, most_bytes
from engine.drafter.eagle3 import drafter_of, first_drafter, make_drafter
from engine.drafter.export import load_drafter_folder
from engine.drafter.finished_responses import FinishedResponses
from engine.drafter.held_out_evaluation import UNJUDGED, Judged
from engine.drafter.kind import feature_width
from engine.drafter.layout import without_copies
from engine.drafter.model import Drafter
from engine.drafter.recipe import configured_recipe
from engine.drafter.spot_trainer import JUDGED_FIRST, SpotTrainer
from engine.models.load import resolve_drafter
from engine.models.weights import ends
from engine.policy.training.training_row import TrainingRow
from engine.pretraining.pretrainer import TOKENS, Pretrainer
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.schedule import PretrainingSchedule
from engine.rollout.interface import Alarm

Weights = dict[str, Tensor]
WORTH_A_FILE = 8 * 2**20
"""Bytes of the buffer that are written at once: to flush a small file takes a worker's time and wins nothing before a checkpoint."""


class SpotTraining:
    """``published`` are the weights that every engine holds: each session starts from them. ``good`` are those of the last version
    that drafted well in a rollout, to roll back to."""

    def __init__(
        self, config: RunConfig, target: PreTrainedModel, rank: int, device: torch.device, checkpoints: Path | None = None
    ) -> None:
        """The drafter is trained on ``device``. ``checkpoints``: the run's folder for them. What is large or soon outdated is written
        there on the way: the buffer, and snapshots of sessions. None for neither."""
        torch.manual_seed(config.seed)  # a drafter that starts from nothing is the same on every worker
        self._config, self._seed, self._rank, self._device = config.drafter, config.seed, rank, device
        self._recipe = recipe = configured_recipe(config.drafter)
        folder = resolve_drafter(config.drafter.path, config.model.path, recipe.kind)
        self._fresh = folder is None
        drafter = first_drafter(recipe.kind, target).to(device)
        embedding, head = ends(target)
        if folder is not None:
            weights = without_copies(load_drafter_folder(folder, target.config, recipe.kind), embedding, head)
            drafter = drafter_of(weights, target.config).to(device)
        self._target = target
        longest = config.rollout.max_prompt_tokens + config.rollout.max_new_tokens
        memory = host_memory.total() // config.cluster.workers
        enough = enough_bytes(longest, feature_width(recipe.kind, target.config.hidden_size), memory)
        if config.drafter.pretrain_minutes:  # which goes through all that was written, again and again
            enough = most_bytes(memory)
        self._buffer = DataBuffer(config.drafter.spot.buffer_bytes or enough, config.drafter.spot.least_tokens)
        self._told = self._told_of_lost = False
        self._trainer = self._make_trainer(drafter)
        self._pretrainer: Pretrainer | None = None
        if self._fresh:
            self._trainer.learning_rate = config.drafter.spot.first_learning_rate
        self.published: Weights = self._trainer.weights()
        self._files = BufferFiles(checkpoints, f"buffer_{rank}", self._buffer) if checkpoints else None
        self._snapshots = checkpoints / f"drafter_{rank}" if checkpoints and config.checkpoint.drafter_every_microsteps else None
        self._checkpoints = SnapshotWriter(self._snapshots) if self._snapshots else None
        self._interval = max(1, config.checkpoint.drafter_every_microsteps // 2)  # the other half may pass while one is written
        self._unfinished: Snapshot | None = None
        self.good = self.published
        self._trainer.set_target(embedding, head)

    def _make_trainer(self, drafter: Drafter) -> SpotTrainer:
        spot = self._config.spot
        if self._fresh and not self._config.pretrain_minutes:
            spot = spot.model_copy(update={"tokens_per_microbatch": min(spot.tokens_per_microbatch, TOKENS)})
        return SpotTrainer(drafter, self._buffer, spot, self._recipe, self._seed + self._rank)

    def follow(self) -> None:
        """Takes the target's embedding and head as they are now."""
        self._trainer.set_target(*ends(self._target))

    def finished(self, order: Iterable[int]) -> FinishedResponses:
        """For the responses of a generation, in the ``order`` of their requests (ids), while nobody trains: as they finish, what is older
        makes room for them."""
        return FinishedResponses(self._buffer.limit, order, self._buffer.make_room)

    def finished_beside(self) -> FinishedResponses:
        """For those of a generation that goes on while others use the buffer, in the order in which they finish; they have as many bytes
        as the buffer, for themselves."""
        return FinishedResponses(self._buffer.limit)

    def remember(self, step: int, responses: Sequence[Sequence[Entry]]) -> None:
        """Keeps the finished responses of ``step``, for this step's session and later ones."""
        self._buffer.remember(step, responses)
        self.write_new()

    def add(self, step: int, row: TrainingRow, features: Tensor) -> None:
        """As ``remember``, of a row, but for files: after the last one comes ``write_new``. Of what the buffer has dropped until then
        nothing is written, nor kept for that."""
        self._buffer.add(step, row.tokens, row.prompt_length, features)

    def write_new(self) -> None:
        """What the buffer has got goes into files, in the background."""
        if self._files:
            self._files.write_new(WORTH_A_FILE)

    def take_alarms(self) -> list[Alarm]:
        """What a user should look at, once."""
        shortened = None if self._told else self._buffer.shortened
        if not shortened:
            return []
        self._told = True
        before, after = shortened
        reason = f"of a prompt and response of {before:,} tokens the drafter is trained on {after:,}, for lack of memory"
        return [("response_shortened", f"worker {self._rank}: {reason}; raise drafter.spot.buffer_bytes")]

    def take_lost(self) -> tuple[Lost, list[Alarm]]:
        """What was dropped since the last call before the drafter was trained on it, and an alarm the first time that something was."""
        lost = self._buffer.take_lost()
        if not lost.responses or self._told_of_lost:
            return lost, []
        self._told_of_lost = True
        reason = f"{lost.responses:,} responses were dropped before the drafter was trained on them, for lack of memory"
        return lost, [("responses_dropped", f"worker {self._rank}: {reason}; raise drafter.spot.buffer_bytes, or take fewer workers")]

    @property
    def dropped(self) -> bool:
        """Whether the buffer has ever dropped a response."""
        return self._buffer.oldest > 0

    def train(self, should_stop: Callable[[], bool], progress: SessionProgress) -> TrainedSession | None:
        """A session; the first one after a resume goes on where the killed run's newest left off. None, and the weights as before, if there
        is nothing to train on yet, or if it had to stop before anything was judged. An error undoes it; FloatingPointError if the loss is
        not finite."""
        if not self._trainer.has_data:
            return None
        unfinished, self._unfinished = self._unfinished, None
        resumed = unfinished if unfinished and unfinished.progress.target >= progress.target else None  # else the checkpoint is newer
        done = count(resumed.progress.microsteps + 1 if resumed else 1)
        began = time.perf_counter()
        passed: list[float] = []

        def stop() -> bool:
            passed.append(time.perf_counter() - began)
            reached = replace(progress, microsteps=next(done))
            if self._checkpoints and reached.microsteps % self._interval == 0:
                self._checkpoints.put(Snapshot(reached, self._trainer.state_dict()))
            return should_stop()

        try:
            report = self._trainer.train(stop, resumed.state if resumed else None, should_stop)
            if not isfinite(report.loss):
                raise FloatingPointError(f"the drafter's loss is {report.loss}")
        except Exception:  # whatever it was, the next session must not start from half of this one; it goes on to the caller
            self._trainer.reset(self.published)
            raise
        return None if report.after is UNJUDGED else TrainedSession(report, passed[: JUDGED_FIRST[0] + 1][-1])

    def begin_pretraining(self, vocabulary: Tensor | None) -> tuple[int, ...] | None:
        """A drafter that was not loaded starts anew, drafting from ``vocabulary``, with random weights: enough training is ahead to make
        more of those than of the target's last layer. Returns the vocabulary that it has."""
        if self._fresh:
            torch.manual_seed(self._seed)
            drafter = make_drafter(self._recipe.kind, self._target.config, vocabulary).to(self._device)
            self._trainer = self._make_trainer(drafter)
        self._pretrainer = Pretrainer(self._trainer, self._config, self._seed + self._rank)
        self.published = self.good = self._trainer.weights()
        self.follow()
        had = self._trainer.drafter.vocabulary
        return None if had is None else tuple(had.tolist())

    def pretrain(self, written: PretrainingRound, schedule: PretrainingSchedule, began: float, seconds: float) -> PretrainingRound:
        """See ``Pretrainer.train``."""
        assert self._pretrainer is not None
        return self._pretrainer.train(written, schedule, began, seconds)

    def judge_pretrained(self) -> Judged:
        assert self._pretrainer is not None
        return self._pretrainer.judge()

    def end_pretraining(self) -> None:
        """Small steps, as of a drafter that has learned, from now on."""
        self._trainer.learning_rate, self._pretrainer = self._config.spot.learning_rate, None

    def judge(self, candidate: Weights | None) -> tuple[Judged, Judged]:
        """The published weights and ``candidate`` (the good ones if None), under the target as it is now.

        The trainer is left with the published weights.
        """
        after = self._judged(self.good if candidate is None else candidate)
        return self._judged(self.published), after

    def _judged(self, weights: Weights) -> Judged:
        self._trainer.drafter.load_state_dict(weights)
        return self._trainer.evaluate().judged

    def weights(self) -> Weights:
        """What the last session made of the published weights."""
        return self._trainer.weights()

    def adopt(self, weights: Mapping[str, Tensor] | None) -> None:
        """Takes a newly published version; None goes back to the published one, as the last session did not help."""
        if weights is None:
            self._trainer.slow_down()
        else:
            self.published = dict(weights)
        self._trainer.drafter.load_state_dict(self.published)

    def roll_back(self) -> None:
        """Publishes the good weights again. What the optimizer learnt from the bad ones is forgotten."""
        self.published = self.good
        self._trainer.reset(self.good)

    def stage(self, name: str) -> dict[str, Any]:
        """A copy of the trainer in host memory, the good weights if they are not the published ones, and a Future of the buffer's index:
        parts of a checkpoint, by names that start with ``name``."""
        index = {f"{name}.buffer.json": self._files.index()} if self._files else {}
        good = {} if self.good is self.published else {f"{name}.good.pt": self.good}
        return {f"{name}.trainer.pt": self._trainer.state_dict()} | good | index

    def load(self, path: Path) -> None:
        """Goes on from what was staged and then written under names that start with ``path``; the next session also from the newest
        snapshot, if that is of the same RL step or a later one, which is to be done again: what it learnt counts if held-out
        responses say so."""
        index = path.with_suffix(".buffer.json")
        if self._files and index.exists():  # checkpoints of earlier versions have none
            self._files.load(storage.read(index))
        self._trainer.load_state_dict(storage.read(path.with_suffix(".trainer.pt")))
        self.published = self._trainer.weights()
        good = path.with_suffix(".good.pt")
        self.good = storage.read(good) if good.exists() else self.published
        self._unfinished = newest_snapshot(self._snapshots) if self._snapshots else None
