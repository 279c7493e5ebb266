"""``bench draft_vocabulary``: drafters that draft from the most frequent tokens only, against one that drafts from all.

All are trained on the same responses of a pretrained model to GSM8K's training questions, in the same order and with the same number
of micro-steps, in turns, and measured on questions of the test file.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from engine.bench.real import SAMPLED, RealBed, training_file
from engine.bench.testbed import machine, ratio
from engine.config import DrafterConfig, RolloutConfig, SpeculationConfig
from engine.config.task import MathConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import make_drafter
from engine.drafter.evaluate import CHAIN, DrafterMeasurement
from engine.drafter.offline_training import PromptAndResponse, remember
from engine.drafter.recipe import configured_recipe
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import ends
from engine.pretraining.frequent_tokens import frequent_tokens
from engine.pretraining.pretrainer import Pretrainer
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.schedule import PretrainingSchedule
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.from_model import engine_from_model
from engine.speculation.tuner.cost_table import CostTable
from engine.tasks.registry import build_task

ALL, DRAFTED = "all", 8192
RESPONSES, SIBLINGS, TOKENS, TURNS, STEPS_A_TURN = 256, 4, 192, 8, 40
MEASURED, SIZES, LENGTH = 64, (1, 4, 16), 64
SETTINGS = DrafterConfig(recipe="hass")
RECIPE = configured_recipe(SETTINGS)


@dataclass
class Arm:
    """A drafter in training. ``rates``: tokens a second of each turn; ``levels``: seconds of a draft by requests, of each table."""

    trainer: SpotTrainer
    pretrainer: Pretrainer
    clock: Iterator[int]
    rates: list[float] = field(default_factory=list)
    tables: list[CostTable] = field(default_factory=list)

    def train(self, schedule: PretrainingSchedule, steps: int) -> None:
        """The next ``steps`` micro-steps; the schedule's time is counted in them."""
        began = time.perf_counter()
        report = self.pretrainer.train(PretrainingRound(0, 0, 0.0), schedule, next(self.clock), steps)
        self.rates.append(report.tokens / (time.perf_counter() - began))


def run(quick: bool, model: str, data: Path | None) -> dict[str, Any]:
    """Ratios of speeds are medians over turns. ``covered``: the share of the test responses' tokens that are drafted at all."""
    data = training_file("draft_vocabulary", data)
    bed = RealBed(model, data)
    responses = _responses(bed, data, RESPONSES // (16 if quick else 1))
    counts = Counter(token for pair in responses for part in pair for token in part)
    drafted = frequent_tokens(counts, bed.model.config.vocab_size, DRAFTED)
    buffer = DataBuffer(2**32)
    remember(buffer, 0, bed.theirs, responses, RECIPE.kind)
    arms = {ALL: _arm(bed, buffer, None)} | ({} if drafted is None else {f"{DRAFTED}": _arm(bed, buffer, drafted)})
    turns, steps = (2, 4) if quick else (TURNS, STEPS_A_TURN)
    schedule = PretrainingSchedule(turns * steps)
    for turn in range(turns):
        for arm in arms.values():
            arm.train(replace(schedule, spent=turn * steps), steps)
        print(f"turn {turn + 1} of {turns}:", {name: round(arm.rates[-1]) for name, arm in arms.items()}, "tokens/s", flush=True)
    for _ in range(1 if quick else 2):
        for arm in arms.values():
            arm.tables.append(_costs(bed, arm))
    questions = bed.requests(MEASURED // (8 if quick else 1), seed=7)
    sampling = replace(SAMPLED, max_new_tokens=TOKENS, seed=7)
    measurement = DrafterMeasurement(bed.model, bed.ends, questions, sampling)
    found = {name: measurement.measure(arm.trainer.weights(), CHAIN) for name, arm in arms.items()}
    return {
        "model": model,
        "facts": {"dtype": str(bed.dtype).removeprefix("torch.")} | machine(bed.model.device),
        "vocabulary": bed.model.config.vocab_size,
        "responses": len(responses),
        "microsteps": turns * steps,
        "arms": {name: {"accept": each.accept_length, "accept_by_position": each.acceptance} for name, each in found.items()},
        **{f"from_{name}": _against(arms[ALL], arm, found[name].accept_length / found[ALL].accept_length) for name, arm in arms.items()},
    }


def _against(whole: Arm, arm: Arm, accepted: float) -> dict[str, Any]:
    def drafting(size: int) -> float:
        pairs = zip(whole.tables, arm.tables, strict=True)
        return ratio([(one.draft(size, 1, LENGTH), other.draft(size, 1, LENGTH)) for one, other in pairs])

    return {
        "accept_ratio": round(accepted, 3),
        "training_speedup": ratio(list(zip(arm.rates, whole.rates, strict=True))),
        "drafting_speedup": {str(size): drafting(size) for size in SIZES},
    }


def _responses(bed: RealBed, data: Path, number: int) -> list[PromptAndResponse]:
    """The model's own, to ``number`` / ``SIBLINGS`` questions of ``data``."""
    prompts = build_task(MathConfig(path=data), 0, bed.tokenizer).prompts(0, number // SIBLINGS)
    requests = [Request(index, index // SIBLINGS, prompts[index // SIBLINGS].tokens) for index in range(number)]
    sampling = Sampling(SAMPLED.temperature, SAMPLED.top_p, max_new_tokens=TOKENS)
    return [(each.request.prompt, each.tokens) for each in bed.engine(None).generate(requests, sampling)]


def _arm(bed: RealBed, buffer: DataBuffer, drafted: torch.Tensor | None) -> Arm:
    torch.manual_seed(0)
    drafter = make_drafter(RECIPE.kind, bed.model.config, drafted).to(bed.model.device)
    trainer = SpotTrainer(drafter, buffer, SETTINGS.spot, RECIPE)
    trainer.set_target(*ends(bed.theirs))
    clock = count()
    return Arm(trainer, Pretrainer(trainer, SETTINGS, 0, lambda: next(clock)), clock)


def _costs(bed: RealBed, arm: Arm) -> CostTable:
    """Measured anew."""
    with TemporaryDirectory() as folder:
        rollout = RolloutConfig(max_prompt_tokens=512, max_batch=SIZES[-1])
        engine_from_model(bed.model, bed.ends, SpeculationConfig(), arm.trainer.weights(), rollout=rollout, costs=Path(folder))
        (file,) = Path(folder).glob("*.json")
        table = CostTable.load(file)
    assert table is not None
    return table
