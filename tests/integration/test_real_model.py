"""A pretrained model that nobody here made, as a user gets it: downloaded by name, drafted for, and equal to plain decoding to the bit."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from trained_drafters import trained
from transformers import PreTrainedModel

from engine.config import RolloutConfig, StrategyConfig
from engine.config.task import MathConfig
from engine.drafter.eagle3 import first_drafter
from engine.errors import ModelError
from engine.models import library
from engine.models.folder import home
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.from_model import engine_from_model, fixed_strategy
from engine.tasks.registry import build_task

NAME = "smollm2-135m"
QUESTIONS = Path(__file__).parents[1] / "data/gsm8k_sample.jsonl"
COUNTING = 6 * "one, two, three, four, five, six, seven. "
"""Begins a text that goes on by itself."""
NGRAMS = StrategyConfig(drafter="ngram", depth=6, verify=6)
STRATEGIES = {
    torch.bfloat16: (StrategyConfig(depth=3, top_k=3, verify=8), NGRAMS),
    torch.float16: (StrategyConfig(depth=4, verify=4), NGRAMS),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of LONGTAIL_HOME if it is there, else downloaded."""
    with pytest.MonkeyPatch.context() as patch:
        if not (home() / "models" / NAME).is_dir():
            patch.setenv("LONGTAIL_HOME", str(tmp_path_factory.mktemp("home")))
            try:
                library.get(NAME)
            except ModelError as error:
                if "SHA-256" in str(error):
                    raise
                pytest.skip(f"the model cannot be had here: {str(error).splitlines()[0]}")
        return resolve(NAME)


@pytest.mark.skipif(os.environ.get("LONGTAIL_OFFLINE") == "true", reason="LONGTAIL_OFFLINE: nothing is downloaded")
def test_it_writes_what_plain_decoding_writes_whoever_drafts(folder: Path) -> None:
    """With a drafter that has learned a little and has a draft vocabulary, and with n-grams: of either some drafts are accepted and some
    rejected, and they leave no trace, in both types that a model has on a CPU, whatever is decoded together."""
    model, tokenizer = load_model(folder, torch.bfloat16), load_tokenizer(folder)
    ends = end_tokens(model, tokenizer)
    assert ends == {tokenizer.convert_tokens_to_ids("<|im_end|>")}
    prompts = build_task(MathConfig(path=QUESTIONS), 0, tokenizer).prompts(0, 2)
    given = [prompts[0].tokens, prompts[0].tokens, prompts[1].tokens, tuple(tokenizer(COUNTING.rstrip()).input_ids)]
    requests = [Request(number, max(number - 1, 0), tokens) for number, tokens in enumerate(given)]
    sampling = Sampling(0.7, 0.95, max_new_tokens=20)
    drafter: dict[str, torch.Tensor] = {}
    for dtype, strategies in STRATEGIES.items():
        plain = engine_from_model(model, ends, None, dtype=dtype).generate(requests, sampling)
        assert len({completion.tokens for completion in plain}) == 4
        texts = [str(tokenizer.decode(list(completion.tokens))).lower() for completion in plain]
        assert any(word in text for text in texts for word in ("the", "we", "to"))
        drafter = drafter or learned(model, plain)
        for together, strategy in enumerate(strategies, start=2):
            rollout = RolloutConfig(max_batch=together)
            engine = engine_from_model(model, ends, fixed_strategy(strategy), drafter, dtype=dtype, rollout=rollout)
            found = {each.request.id: (each.tokens, each.logprobs) for each in engine.generate(requests[::-1], sampling)}
            assert found == {each.request.id: (each.tokens, each.logprobs) for each in plain}, (dtype, strategy)
            told = engine.take_statistics()
            accepted = told.ngram_accepted_by_position if strategy.drafter == "ngram" else told.accepted_by_position
            assert 0 < sum(accepted) < sum(told.drafted_by_position)


def learned(model: PreTrainedModel, plain: Sequence[Completion]) -> dict[str, torch.Tensor]:
    """A drafter that has seen a part of ``plain``, and drafts from the tokens of all and as many others."""
    torch.manual_seed(0)
    written = {token for completion in plain for token in completion.tokens}
    vocabulary = torch.tensor(sorted(written.union(range(512))))
    return trained(first_drafter("eagle", model, vocabulary), "eagle", model, plain[:3], times=10)
