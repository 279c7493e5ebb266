"""The first drafter of ``tiny``: trained on search traces, whose law the target has learned, and on the target's hidden states there."""

from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from engine.config import SpotConfig
from engine.drafter.buffer import DataBuffer
from engine.drafter.export import Card, write_drafter_folder
from engine.drafter.model import Drafter
from engine.drafter.offline import Response, train_offline
from engine.drafter.trainer import Evaluation, SpotTrainer
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.warmstart.traces import examples

LEARNING_RATE = 3e-3
UNROLL = 3
FOUR_NUMBERS, LONGEST = 0.3, 1000


def train_drafter(target: Path, output: Path, minutes: float, seed: int) -> Evaluation:
    """Writes a drafter folder; returns its held-out evaluation."""
    model, tokenizer = load_model(target, torch.float32), load_tokenizer(target)
    torch.manual_seed(seed)
    drafter = Drafter(model.config)
    trainer = SpotTrainer(drafter, DataBuffer(2**29), SpotConfig(learning_rate=LEARNING_RATE, unroll=UNROLL), seed=seed)
    (end,) = end_tokens(model, tokenizer)
    evaluation = train_offline(trainer, model, _responses(tokenizer, end, seed), 60 * minutes)
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in trainer.weights().items()}
    write_drafter_folder(output, weights, model.config, Card(base_model="tiny", task="countdown", version=0))
    return evaluation


def _responses(tokenizer: PreTrainedTokenizerBase, end: int, seed: int) -> Iterator[Response]:
    """Endless (prompt, response) token lists that the target has not been trained on."""
    for prompt, response in examples(seed + 10**9, FOUR_NUMBERS, LONGEST):
        yield tokenizer(prompt).input_ids, [*tokenizer(response).input_ids, end]
