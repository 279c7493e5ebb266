"""Training of a drafter before a run, on what the target writes: rounds of micro-steps over all responses that are there by now."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isfinite
from random import Random

import torch

from engine.config import DrafterConfig
from engine.drafter.data_buffer import Entry
from engine.drafter.held_out_evaluation import Judged
from engine.drafter.packing import MicroBatch, cut, pack, rows
from engine.drafter.spot_trainer import SpotTrainer
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.schedule import PretrainingSchedule

EVALUATED_TOKENS = 4096
TOKENS = 256
"""In a micro-step, at most: a drafter that has much to learn in little time learns more by more steps than by better gradients."""
FEATURES = 5.0
"""How many times as much the distance of features counts as in a run: a drafter that starts from nothing goes on best from its own drafts
when it has learned these first."""
REVERSE_KL = 0.1
"""Its weight where neither the run nor its pretraining names one: a draft that the target would not write costs all that follow it."""


class Pretrainer:
    """Goes through the responses of ``trainer``'s buffer again and again, those parts first that were seen least often."""

    def __init__(self, trainer: SpotTrainer, config: DrafterConfig, seed: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._trainer, self._learning_rate, self._clock = trainer, config.pretrain_learning_rate, clock
        recipe, reverse_kl = trainer.recipe, config.pretrain_reverse_kl
        if reverse_kl is None:
            reverse_kl = recipe.reverse_kl_weight or REVERSE_KL
        self._recipe = replace(recipe, feature_weight=FEATURES * recipe.feature_weight, reverse_kl_weight=reverse_kl)
        self._random = Random(seed)
        self._uses: dict[tuple[int, int], int] = {}  # by entry and beginning of a segment
        self._held_out: list[Entry] = []

    def train(self, written: PretrainingRound, schedule: PretrainingSchedule, began: float, seconds: float) -> PretrainingRound:
        """Micro-steps until ``seconds`` after ``began`` (of the clock), when ``schedule.spent`` was over, or until the loss is not
        finite."""
        losses: list[float] = []
        tokens = 0
        for batch in self._batches():
            passed = self._clock() - began
            if passed >= seconds:
                break
            self._trainer.learning_rate = self._learning_rate * schedule.rate(schedule.spent + passed)
            losses.append(self._trainer.micro_step(batch, 1 if schedule.early(schedule.spent + passed) else None, self._recipe))
            tokens += batch.tokens.numel()
            if not isfinite(losses[-1]):
                break
        return replace(written, microsteps=len(losses), tokens=tokens, loss=sum(losses) / max(1, len(losses)))

    def judge(self) -> Judged:
        """On held-out responses, the same ones in every round, also when the buffer has dropped them: what it gains is less than they
        differ."""
        if sum(entry.read for entry in self._held_out) < EVALUATED_TOKENS:
            self._held_out = self._trainer.buffer.first_held_out(EVALUATED_TOKENS)
        return self._trainer.evaluate(self._held_out).judged

    def _batches(self) -> Iterator[MicroBatch]:
        """Without end, as long as there is something to train on."""
        config = self._trainer.config
        bound = min(config.tokens_per_microbatch, TOKENS)
        while entries := self._trainer.buffer.trainable():
            segments = {(entry.id, segment.start): segment for entry in entries for segment in cut(entry, bound, config.context)}
            self._uses = {place: self._uses.get(place, 0) for place in segments}
            least = min(self._uses.values())
            chosen = [segment for place, segment in segments.items() if self._uses[place] == least]
            self._random.shuffle(chosen)
            for row in rows(chosen, bound):
                batch = pack(row)
                yield replace(batch, trained=torch.ones_like(batch.trained))  # prompts teach, too, what the target expects
                self._uses |= {(segment.entry.id, segment.start): least + 1 for segment in row}
