"""The first drafter of ``tiny``: trained on search traces, whose law the target has learned, then on the target's own responses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from engine.config import RolloutConfig, SpotConfig
from engine.config.task import CountdownConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.export import write_drafter_folder
from engine.drafter.model import Drafter
from engine.drafter.model_card import DrafterCard
from engine.drafter.offline_training import PromptAndResponse, train_offline
from engine.drafter.recipe import RECIPES
from engine.drafter.spot_trainer import HeldOutEvaluation, SpotTrainer
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.from_model import engine_from_model
from engine.tasks.countdown import CountdownTask
from engine.warmstart.search_traces import examples

LEARNING_RATE, FINE_LEARNING_RATE = 4e-3, 2e-3
TOKENS = 2048
RECIPE = replace(RECIPES["hass"], token_weight=1.0)
OWN_SHARE = 0.5
OWN_AT_ONCE = 256
FOUR_NUMBERS, LONGEST = 0.3, 1000


def train_drafter(target: Path, output: Path, minutes: float, seed: int, start_from: Drafter | None = None) -> HeldOutEvaluation:
    """Writes a drafter folder; returns its held-out evaluation. ``start_from`` skips the traces."""
    model, tokenizer = load_model(target, torch.float32), load_tokenizer(target)
    torch.manual_seed(seed)
    drafter = start_from or Drafter(model.config)
    config = SpotConfig(tokens_per_microbatch=TOKENS)
    trainer = SpotTrainer(drafter, DataBuffer(2**29), config, RECIPE, seed, _optimizers(drafter))
    ends = end_tokens(model, tokenizer)
    seconds = 60 * minutes
    if not start_from:
        train_offline(trainer, model, _traces(tokenizer, ends, seed), seconds * (1 - OWN_SHARE), LEARNING_RATE)
        seconds *= OWN_SHARE
    evaluation = train_offline(trainer, model, _own_responses(model, tokenizer, ends, seed), seconds, FINE_LEARNING_RATE)
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in trainer.weights().items()}
    write_drafter_folder(output, weights, model.config, DrafterCard(base_model="tiny", task="countdown", version=0))
    return evaluation


def _optimizers(drafter: Drafter) -> list[torch.optim.Optimizer]:
    """As for the model itself: Muon for the matrices."""
    matrices = [parameter for parameter in drafter.parameters() if parameter.ndim == 2]
    others = [parameter for parameter in drafter.parameters() if parameter.ndim != 2]
    muon = torch.optim.Muon(matrices, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0)]


def _traces(tokenizer: PreTrainedTokenizerBase, ends: frozenset[int], seed: int) -> Iterator[PromptAndResponse]:
    """Endless (prompt, response) token lists that the target has not been trained on."""
    (end,) = ends
    for prompt, response in examples(seed + 10**9, FOUR_NUMBERS, LONGEST):
        yield tokenizer(prompt).input_ids, [*tokenizer(response).input_ids, end]


def _own_responses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, ends: frozenset[int], seed: int
) -> Iterator[PromptAndResponse]:
    """Endless responses of the target to fresh problems, at temperature 1."""
    engine = engine_from_model(model, ends, None, rollout=RolloutConfig(max_batch=OWN_AT_ONCE))
    task = CountdownTask(CountdownConfig(four_numbers=FOUR_NUMBERS), seed + 10**6, tokenizer)
    step = 0
    while True:
        prompts = task.prompts(step, OWN_AT_ONCE)
        requests = [Request(step * OWN_AT_ONCE + i, i, prompt.tokens) for i, prompt in enumerate(prompts)]
        for completion in engine.generate(requests, Sampling(max_new_tokens=LONGEST, seed=seed)):
            yield list(completion.request.prompt), list(completion.tokens)
        step += 1
