"""``bench recipes``: TLT's table of recipes, and EAGLE as we train it. All start from the same random drafter of their kind and train
on the same responses in the same order."""

import time
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch

from engine.bench.testbed import Bed, fixed, timed
from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import first_drafter
from engine.drafter.kind import DrafterKind
from engine.drafter.model import Drafter
from engine.drafter.offline_training import remember
from engine.drafter.recipe import RECIPES, Recipe
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import ends
from engine.rollout.interface import Completion, Sampling

ARMS = RECIPES | {"eagle": Recipe(), "eagle+osd": Recipe(reverse_kl_weight=0.1), "eagle, 2 passes": RECIPES["eagle"]}
DEPTH = 6
LONGEST, LONGEST_DRAFTED = 256, 96
TRAINING_SEED, FRESH_SEED = 0, 50_000


def run(quick: bool, model: str) -> dict[str, Any]:
    """Per recipe: agreement and acceptance of the first drafted token and accept length of chains of ``DEPTH`` drafts, both on fresh
    prompts at temperature 1; tokens and seconds of training, and its cost as a multiple of EAGLE's."""
    bed = Bed(model)
    steps, responses = (40, 128) if quick else (160, 512)
    stored, fresh = (_responses(bed, number, seed) for number, seed in ((responses, TRAINING_SEED), (64, FRESH_SEED)))
    kinds: tuple[DrafterKind, ...] = ("eagle", "eagle3")
    buffers = {kind: (_buffer(bed, stored, kind), _buffer(bed, fresh, kind)) for kind in kinds}
    recipes = {name: _train(bed, recipe, *buffers[recipe.kind], steps) for name, recipe in ARMS.items()}
    start = {kind: _accept_length(bed, make_trainer(bed, Recipe(kind))) for kind in kinds}
    for result in recipes.values():
        result["cost"] = round(result["seconds"] / recipes["eagle"]["seconds"], 2)
    return {
        "facts": bed.facts(),
        "responses": len(stored),
        "response_tokens": sum(len(completion.tokens) for completion in stored),
        "random_start_accept_length": start,
        "recipes": recipes,
    }


def make_trainer(bed: Bed, recipe: Recipe) -> SpotTrainer:
    """With the random drafter that every recipe for its kind starts from."""
    torch.manual_seed(0)
    drafter = first_drafter(recipe.kind, bed.model)
    if recipe.kind == "eagle":  # whose first drafter has more of the target than EAGLE-3's
        drafter = Drafter(bed.model.config).to(bed.device)
    spot = SpotConfig(learning_rate=2e-3, tokens_per_microbatch=1024, passes=10**6)
    trainer = SpotTrainer(drafter, DataBuffer(2**30), spot, recipe)
    trainer.set_target(*ends(bed.model))
    return trainer


def _train(bed: Bed, recipe: Recipe, stored: DataBuffer, fresh: DataBuffer, steps: int) -> dict[str, Any]:
    trainer = make_trainer(bed, recipe)
    trainer.buffer = stored
    taken = count(1)
    began = time.perf_counter()
    report = trainer.train(lambda: next(taken) == steps)
    seconds = time.perf_counter() - began
    evaluation = trainer.evaluate([*fresh.mix(), *fresh.held_out(2**30)])
    result = {
        "agreement": round(evaluation.agreement, 3),
        "acceptance": round(evaluation.acceptance, 3),
        "accept_length": _accept_length(bed, trainer),
        "unroll": recipe.unroll,
        "tokens": report.tokens,
        "seconds": round(seconds, 1),
    }
    print(f"{recipe}: {result}", flush=True)
    return result


def _responses(bed: Bed, number: int, seed: int) -> list[Completion]:
    return bed.engine(None).generate(bed.requests(number, seed=seed), Sampling(max_new_tokens=LONGEST, seed=seed))


def _buffer(bed: Bed, completions: Sequence[Completion], kind: DrafterKind) -> DataBuffer:
    buffer = DataBuffer(2**30)
    remember(buffer, 0, bed.model, [(completion.request.prompt, completion.tokens) for completion in completions], kind)
    return buffer


def _accept_length(bed: Bed, trainer: SpotTrainer) -> float:
    """Tokens that a verification of a chain brings, the target's own one included, on fresh prompts."""
    engine = bed.engine(fixed(DEPTH), drafter=trainer.weights(), kind=trainer.drafter.kind)
    statistics = timed(engine, bed.requests(64, seed=FRESH_SEED), Sampling(max_new_tokens=LONGEST_DRAFTED, seed=FRESH_SEED)).statistics
    return round(1 + sum(statistics.accepted_by_position) / statistics.drafted_by_position[0], 3)
