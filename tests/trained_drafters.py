"""Drafters that know some responses mostly by heart."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor
from transformers import PreTrainedModel

from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.kind import RECIPE_KINDS
from engine.drafter.model import Drafter
from engine.drafter.offline_training import remember
from engine.drafter.recipe import RECIPES
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import ends
from engine.rollout.interface import Completion


def trained(
    drafter: Drafter, recipe: str, model: PreTrainedModel, responses: Sequence[Completion], times: int = 60, unroll: int | None = None
) -> dict[str, Tensor]:
    """The weights of ``drafter`` after so many passes over what ``model`` has written."""
    buffer = DataBuffer(2**26)
    pairs = list({(completion.request.prompt, completion.tokens) for completion in responses})
    remember(buffer, 0, model, [*pairs, *pairs[:2]], RECIPE_KINDS[recipe])
    trained_on = [replace(entry, group=1) for entry in buffer.since(0)]  # none is held out
    buffer.restore(buffer.counters(), trained_on)
    trainer = SpotTrainer(drafter, buffer, SpotConfig(learning_rate=5e-3, unroll=unroll), RECIPES[recipe])
    trainer.set_target(*ends(model))
    for time in range(1, times + 1):
        for batch in trainer.one_pass(time):
            trainer.micro_step(batch)
    return trainer.weights()
