"""The drafter's side of a worker: it remembers responses with their hidden states and trains while others still generate."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.config import RunConfig
from engine.drafter.buffer import DataBuffer
from engine.drafter.eagle3 import first_drafter
from engine.drafter.export import load_drafter_folder
from engine.drafter.recipe import configured_recipe
from engine.drafter.trainer import SpotTrainer, TrainingReport
from engine.models.load import resolve_drafter
from engine.rollout.base import Completion

Weights = dict[str, Tensor]


class Spot:
    """``published`` are the weights that every engine holds: each session starts from them."""

    def __init__(self, config: RunConfig, target: PreTrainedModel, rank: int) -> None:
        torch.manual_seed(config.seed)  # a random drafter is the same on every worker
        recipe = configured_recipe(config.drafter)
        drafter = first_drafter(recipe.kind, target)
        folder = resolve_drafter(config.drafter.path, config.model.path, recipe.kind)
        if folder is not None:
            drafter.load_state_dict(load_drafter_folder(folder, target.config, recipe.kind))
        self._target = target
        self._buffer = DataBuffer(config.drafter.spot.buffer_bytes, config.drafter.spot.least_tokens)
        self._trainer = SpotTrainer(drafter, self._buffer, config.drafter.spot, recipe, config.seed + rank)
        self.published: Weights = self._trainer.weights()
        self.follow()

    def follow(self) -> None:
        """Takes the target's embedding and head as they are now."""
        target: Any = self._target
        self._trainer.set_target(target.get_input_embeddings().weight, target.get_output_embeddings().weight)

    def remember(self, step: int, completions: Sequence[Completion], features: Mapping[int, Tensor]) -> None:
        """Keeps the responses of ``step`` with their ``features`` (by request id), for this step's session and later ones."""
        for completion in completions:
            request = completion.request
            self._buffer.add(step, (*request.prompt, *completion.tokens), len(request.prompt), features[request.id])

    def train(self, should_stop: Callable[[], bool]) -> TrainingReport | None:
        """A session; None if there is nothing to train on yet."""
        return self._trainer.train(should_stop) if self._trainer.has_data else None

    def weights(self) -> Weights:
        """What the last session made of the published weights."""
        return self._trainer.weights()

    def adopt(self, weights: Mapping[str, Tensor] | None) -> None:
        """Takes a newly published version; None goes back to the published one."""
        self.published = dict(weights) if weights is not None else self.published
        self._trainer.drafter.load_state_dict(self.published)

    def save(self, path: Path) -> None:
        """Writes buffer and trainer beside each other, under names that start with ``path``'s."""
        self._buffer.save(path.with_suffix(".buffer.safetensors"))
        torch.save(self._trainer.state_dict(), path.with_suffix(".trainer.pt"))

    def load(self, path: Path) -> None:
        self._buffer.restore(path.with_suffix(".buffer.safetensors"))
        self._trainer.load_state_dict(torch.load(path.with_suffix(".trainer.pt"), weights_only=True))
        self.published = self._trainer.weights()
