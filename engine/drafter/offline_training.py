"""Trains a first drafter away from any run: a stream of responses, hidden states of a fixed target, and the spot trainer."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from engine.drafter.data_buffer import DataBuffer
from engine.drafter.held_out_evaluation import HeldOutEvaluation
from engine.drafter.kind import DrafterKind, captured_layers
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import ends

PromptAndResponse = tuple[Sequence[int], Sequence[int]]
ROUND = 64
SEQUENCES_PER_PASS = 8
PASSES = 4  # hidden states, and the responses themselves, cost more than a pass over them


@torch.no_grad()
def hidden_states(target: PreTrainedModel, sequences: list[list[int]], kind: DrafterKind = "eagle") -> list[Tensor]:
    """The target's features [T, W] of each sequence for a drafter of ``kind``: the layers' inputs that it reads (see ``kind.py``), then
    the hidden states after the final norm. Runs sequences of like length together."""
    layers = captured_layers(kind, target.config.num_hidden_layers)
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    found: dict[int, Tensor] = {}
    for first in range(0, len(order), SEQUENCES_PER_PASS):
        indices = order[first : first + SEQUENCES_PER_PASS]
        inputs = pad_sequence([torch.tensor(sequences[index]) for index in indices], batch_first=True).to(target.device)
        outputs = target.base_model(input_ids=inputs, use_cache=False, output_hidden_states=bool(layers))
        hidden = torch.cat([*(outputs.hidden_states[layer] for layer in layers), outputs.last_hidden_state], -1)
        found |= {index: row[: len(sequences[index])] for index, row in zip(indices, hidden, strict=True)}
    return [found[index] for index in range(len(sequences))]


def remember(
    buffer: DataBuffer,
    step: int,
    target: PreTrainedModel,
    responses: Sequence[tuple[Sequence[int], Sequence[int]]],
    kind: DrafterKind = "eagle",
) -> None:
    """Adds (prompt, response) pairs to ``buffer`` as those of RL step ``step``, with the features that the target has for them."""
    sequences = [[*prompt, *response] for prompt, response in responses]
    for (prompt, _), tokens, features in zip(responses, sequences, hidden_states(target, sequences, kind), strict=True):
        buffer.add(step, tokens, len(prompt), features[:-1])


def train_offline(
    trainer: SpotTrainer,
    target: PreTrainedModel,
    responses: Iterable[PromptAndResponse],
    seconds: float,
    learning_rate: float,
    clock: Callable[[], float] = time.monotonic,
) -> HeldOutEvaluation:
    """Trains on (prompt, response) token lists, best sampled from the target itself, until they end or ``seconds`` are over.

    The learning rate falls from ``learning_rate`` to zero on a cosine over ``seconds``. Returns the held-out evaluation at the end.
    """
    trainer.set_target(*ends(target))
    started = clock()
    for number, chunk in enumerate(_chunks(responses)):
        remember(trainer.buffer, number, target, chunk, trainer.drafter.kind)
        for batch in chain.from_iterable(trainer.one_pass() for _ in range(PASSES)):
            progress = (clock() - started) / seconds
            if progress >= 1:
                return trainer.evaluate()
            trainer.learning_rate = learning_rate * (0.5 + 0.5 * math.cos(math.pi * progress))
            trainer.micro_step(batch)
    return trainer.evaluate()


def _chunks(responses: Iterable[PromptAndResponse]) -> Iterator[list[PromptAndResponse]]:
    stream = iter(responses)
    while chunk := list(islice(stream, ROUND)):
        yield chunk
