"""Rounds of pretraining on the responses of a small random model."""

from collections import Counter
from dataclasses import replace
from itertools import count
from math import isfinite

import pytest
import torch
from transformers import PreTrainedModel

from engine.config import DrafterConfig, SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import make_drafter
from engine.drafter.packing import MicroBatch, cut
from engine.drafter.recipe import RECIPES, Recipe
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import ends
from engine.pretraining.pretrainer import REVERSE_KL, TOKENS, Pretrainer
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.schedule import PretrainingSchedule

WRITTEN = PretrainingRound(160, 3000, 1.0)


def at(learning_rate: float) -> DrafterConfig:
    """Also one that no configuration may have."""
    return DrafterConfig().model_copy(update={"pretrain_learning_rate": learning_rate})


@pytest.fixture
def trainer(target: PreTrainedModel, buffer: DataBuffer) -> SpotTrainer:
    torch.manual_seed(1)
    trainer = SpotTrainer(make_drafter("eagle", target.config), buffer, SpotConfig(tokens_per_microbatch=256), RECIPES["hass"])
    trainer.set_target(*ends(target))
    return trainer


def test_a_round_ends_at_its_time_and_held_out_drafts_gain(trainer: SpotTrainer) -> None:
    clock = count()
    pretrainer = Pretrainer(trainer, at(3e-3), 0, clock=lambda: float(next(clock)))
    before = pretrainer.judge()
    done = pretrainer.train(WRITTEN, PretrainingSchedule(200.0), 0.0, 150.0)
    assert done.microsteps == 150
    assert (done.responses, done.response_tokens) == (WRITTEN.responses, WRITTEN.response_tokens)
    assert pretrainer.judge().accepted > before.accepted + 0.05


def test_every_response_is_seen_before_one_is_seen_again(trainer: SpotTrainer) -> None:
    seen: list[int] = []
    clock = count()
    micro_step = trainer.micro_step

    def noted(batch: MicroBatch, unroll: int | None = None, recipe: Recipe | None = None) -> float:
        seen.append(batch.tokens.numel())
        return micro_step(batch, unroll, recipe)

    trainer.micro_step = noted  # type: ignore[method-assign]
    pretrainer = Pretrainer(trainer, at(1e-3), 0, clock=lambda: float(next(clock)))
    positions = sum(entry.positions for entry in trainer.buffer.trainable())
    rounds = 0
    while sum(seen) < positions:
        pretrainer.train(WRITTEN, PretrainingSchedule(1000.0), next(clock), 4.0)
        rounds += 1
    assert rounds > 2
    assert sum(seen) <= 1.5 * positions, "rounds that begin anew must go on with what was not seen"


def test_what_a_round_did_not_reach_of_a_long_response_is_seen_in_the_next(trainer: SpotTrainer) -> None:
    seen: Counter[tuple[int, int]] = Counter()

    def noted(batch: MicroBatch, unroll: int | None = None, recipe: Recipe | None = None) -> float:  # noqa: ARG001
        seen.update(zip(batch.tokens[0].tolist(), batch.positions[0].tolist(), strict=True))
        return 0.0

    trainer.micro_step = noted  # type: ignore[method-assign]
    trainer.buffer = DataBuffer(2**20)
    for first in range(0, 4000, 1000):  # one of them at least is held out
        trainer.buffer.add(0, range(first, first + 900), 4, torch.zeros(899, 1))
    clock = count()
    pretrainer = Pretrainer(trainer, at(1e-3), 0, clock=lambda: float(next(clock)))
    parts = [segment for entry in trainer.buffer.trainable() for segment in cut(entry, 256)]
    assert len(parts) > 4
    for _ in parts:
        pretrainer.train(WRITTEN, PretrainingSchedule(1000.0), next(clock), 1.5)
    assert sorted(seen.values()) == [1] * sum(map(len, parts)), "a micro-step a round"


def test_it_ends_with_a_loss_that_is_not_finite(trainer: SpotTrainer) -> None:
    clock = count()
    done = Pretrainer(trainer, at(1e30), 0, clock=lambda: float(next(clock))).train(WRITTEN, PretrainingSchedule(20.0), 0.0, 20.0)
    assert not isfinite(done.loss)
    assert done.microsteps < 20


def test_it_is_judged_by_the_same_responses_when_the_buffer_has_dropped_them(trainer: SpotTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.pretraining.pretrainer.EVALUATED_TOKENS", 100)
    pretrainer = Pretrainer(trainer, at(1e-3), 0)
    before = pretrainer.judge()
    monkeypatch.setattr(DataBuffer, "first_held_out", lambda *_: [])
    assert pretrainer.judge() == before
    assert before.accepted > 0


@pytest.mark.parametrize(("in_run", "given", "weight"), [(0.7, 0.0, 0.0), (0.7, 0.3, 0.3), (0.7, None, 0.7), (0.0, None, REVERSE_KL)])
def test_steps_are_small_and_weigh_the_reverse_kl_by_a_setting_of_their_own(
    trainer: SpotTrainer, in_run: float, given: float | None, weight: float
) -> None:
    seen: list[tuple[int, Recipe]] = []

    def noted(batch: MicroBatch, unroll: int | None = None, recipe: Recipe | None = None) -> float:  # noqa: ARG001
        assert recipe is not None
        seen.append((batch.tokens.numel(), recipe))
        return 0.0

    trainer.micro_step = noted  # type: ignore[method-assign]
    trainer.config = SpotConfig(tokens_per_microbatch=1024)
    trainer.recipe = replace(trainer.recipe, reverse_kl_weight=in_run)
    clock = map(float, count())
    config = DrafterConfig(pretrain_reverse_kl=given)
    Pretrainer(trainer, config, 0, clock.__next__).train(WRITTEN, PretrainingSchedule(30.0), 0.0, 30.0)
    assert max(tokens for tokens, _ in seen) <= TOKENS
    assert {recipe.reverse_kl_weight for _, recipe in seen} == {weight}


def test_without_responses_a_round_trains_nothing(target: PreTrainedModel) -> None:
    trainer = SpotTrainer(make_drafter("eagle", target.config), DataBuffer(2**20), SpotConfig(), RECIPES["hass"])
    trainer.set_target(*ends(target))
    assert Pretrainer(trainer, at(1e-3), 0).train(WRITTEN, PretrainingSchedule(5.0), 0.0, 5.0).microsteps == 0
