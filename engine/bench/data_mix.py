"""Part of ``bench spot``: what the long responses of the step before make up for, while those of the running step are not here yet."""

from itertools import chain, islice, repeat
from statistics import fmean
from typing import Any

from engine.bench.testbed import Bed
from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import first_drafter
from engine.drafter.offline_training import remember
from engine.drafter.spot_trainer import SpotTrainer
from engine.drafter.training_report import LOOK_AHEAD
from engine.models.weights import ends
from engine.rollout.interface import Completion, Sampling

FINISHED = 0.7
"""Share of a step's responses, the shortest, that are finished when training begins in its tail."""
LONGEST = 512
ARMS: dict[str, tuple[float, bool]] = {"full": (1.0, True), "partial_buffered": (FINISHED, True), "partial": (FINISHED, False)}
"""Of the running step, which share is there; whether the step before is."""


def compared(bed: Bed, quick: bool) -> dict[str, Any]:
    """Expected accept length of chains of ``LOOK_AHEAD`` on the longest tenth of fresh responses, after equal training from the drafter
    that a run without one starts with; means over seeds, and the ratios to full data."""
    count, microsteps, seeds = (64, 40, 1) if quick else (256, 160, 3)
    fresh = DataBuffer(2**30)
    _add(bed, fresh, 0, _longest(_responses(bed, 2 * count, seed=900), 0.1))
    lengths = {name: fmean(_accept_length(bed, fresh, arm, count, microsteps, seed) for seed in range(seeds)) for name, arm in ARMS.items()}
    ratios = {f"{name}_ratio": round(length / lengths["full"], 4) for name, length in lengths.items() if name != "full"}
    return {name: round(length, 3) for name, length in lengths.items()} | ratios


def _accept_length(bed: Bed, fresh: DataBuffer, arm: tuple[float, bool], count: int, microsteps: int, seed: int) -> float:
    share, before = arm
    buffer = DataBuffer(2**30)
    if before:
        _add(bed, buffer, 0, _responses(bed, count, seed=2 * seed))
    responses = sorted(_responses(bed, count, seed=2 * seed + 1), key=lambda completion: len(completion.tokens))
    _add(bed, buffer, 1, responses[: round(share * count)])
    trainer = _trainer(bed, buffer)
    for batch in islice(chain.from_iterable(trainer.one_pass(passes=microsteps) for _ in repeat(None)), microsteps):
        trainer.micro_step(batch)
    evaluation = trainer.evaluate([*fresh.mix(), *fresh.held_out(fresh.limit)])
    return 1 + LOOK_AHEAD * evaluation.accepted


def _trainer(bed: Bed, buffer: DataBuffer) -> SpotTrainer:
    spot = SpotConfig(tokens_per_microbatch=512, learning_rate=SpotConfig().first_learning_rate)
    trainer = SpotTrainer(first_drafter("eagle", bed.model), buffer, spot)
    trainer.set_target(*ends(bed.model))
    return trainer


def _responses(bed: Bed, count: int, seed: int) -> list[Completion]:
    return bed.engine(None).generate(bed.requests(count, group_size=4, seed=seed), Sampling(max_new_tokens=LONGEST, seed=seed))


def _longest(responses: list[Completion], share: float) -> list[Completion]:
    return sorted(responses, key=lambda completion: len(completion.tokens))[-round(share * len(responses)) :]


def _add(bed: Bed, buffer: DataBuffer, step: int, responses: list[Completion]) -> None:
    remember(buffer, step, bed.model, [(completion.request.prompt, completion.tokens) for completion in responses])
