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
from engine.drafter.held_out_evaluation import HeldOutEvaluation
from engine.drafter.model import Drafter
from engine.drafter.model_card import DrafterCard
from engine.drafter.offline_training import PromptAndResponse, train_offline
from engine.drafter.recipe import RECIPES
from engine.drafter.spot_trainer import SpotTrainer
from engine.drafter.vocabulary import same_type
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.from_model import engine_from_model
from engine.tasks.countdown import CountdownTask
from engine.warmstart.search_traces import examples
from engine.warmstart.target import optimizers

LEARNING_RATE, FINE_LEARNING_RATE = 4e-3, 2e-3
TOKENS = 2048
RECIPE = replace(RECIPES["hass"], token_weight=1.0)
OWN_SHARE = 0.5
OWN_AT_ONCE = 256
FOUR_NUMBERS, LONGEST = 0.3, 1000


def train_drafter(target: Path, output: Path, minutes: float, seed: int) -> HeldOutEvaluation:
    """Writes a drafter folder; returns its held-out evaluation."""
    model, tokenizer = load_model(target, torch.float32), load_tokenizer(target)
    torch.manual_seed(seed)
    drafter = Drafter(model.config)
    config = SpotConfig(tokens_per_microbatch=TOKENS)
    trainer = SpotTrainer(drafter, DataBuffer(2**29), config, RECIPE, seed, optimizers(drafter))
    ends = end_tokens(model, tokenizer)
    seconds = 60 * minutes
    train_offline(trainer, model, _traces(tokenizer, ends, seed), seconds * (1 - OWN_SHARE), LEARNING_RATE)
    evaluation = train_offline(trainer, model, _own_responses(model, tokenizer, ends, seed), seconds * OWN_SHARE, FINE_LEARNING_RATE)
    weights = same_type(trainer.weights(), torch.bfloat16)
    write_drafter_folder(output, weights, model.config, DrafterCard(base_model="tiny", task="countdown", version=0))
    return evaluation


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
