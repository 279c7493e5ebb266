"""The first drafter of ``tiny``: trained on responses that the target itself samples, as its rollouts will be."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from engine.config import CountdownConfig, RolloutConfig, SpotConfig
from engine.drafter.buffer import DataBuffer
from engine.drafter.export import Card, write_drafter_folder
from engine.drafter.model import Drafter
from engine.drafter.offline import Response, train_offline
from engine.drafter.trainer import Evaluation, SpotTrainer
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.base import Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.tasks.countdown import CountdownTask

PROMPTS = 64
LEARNING_RATE = 2e-3


def train_drafter(target: Path, output: Path, minutes: float, seed: int) -> Evaluation:
    """Writes a drafter folder; returns its held-out evaluation. Half of the time or so goes into sampling."""
    model, tokenizer = load_model(target, torch.float32), load_tokenizer(target)
    torch.manual_seed(seed)
    drafter = Drafter(model.config)
    trainer = SpotTrainer(drafter, DataBuffer(2**29), SpotConfig(learning_rate=LEARNING_RATE), seed=seed)
    evaluation = train_offline(trainer, model, _samples(model, tokenizer, seed), 60 * minutes)
    card = Card(base_model="tiny", task="countdown", version=0)
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in trainer.weights().items()}
    write_drafter_folder(output, weights, model.config, card)
    return evaluation


def _samples(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, seed: int) -> Iterator[Response]:
    """Endless (prompt, response) token lists, sampled at temperature 1."""
    weights = dict(model.named_parameters())
    limits = RolloutConfig(max_batch=PROMPTS)
    engine = NativeEngine(
        model.config, weights, rollout=limits, speculation=None, end_tokens=end_tokens(model, tokenizer), device=model.device
    )
    task = CountdownTask(CountdownConfig(), seed + 1_000_000, tokenizer)
    for step in count():
        prompts = task.prompts(step, PROMPTS)
        requests = [Request(step * PROMPTS + index, index, prompt.tokens) for index, prompt in enumerate(prompts)]
        for completion in engine.generate(requests, Sampling(max_new_tokens=limits.max_new_tokens, seed=seed)):
            yield list(completion.request.prompt), list(completion.tokens)
