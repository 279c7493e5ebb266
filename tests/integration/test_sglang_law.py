"""What SGLang samples while it speculates has exactly the target's law; on a model small enough to write that law down.

The model's attention adds nothing, so that a token's law depends on the token before it alone: the law of the next two tokens after
each of 8 is a table, and a response of n tokens gives n / 2 samples of it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from sglang_cases import needs_sglang, random_drafter, sglang_engine, shapes
from sizes import ALL, first, only_with_all
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, LogitsProcessorList, PreTrainedModel, TemperatureLogitsWarper, TopPLogitsWarper

from engine.config import RolloutConfig
from engine.rollout.interface import Request, Sampling
from engine.rollout.sglang.engine import SGLangEngine

pytestmark = needs_sglang
VOCABULARY, FEW, MANY, TOKENS = 8, 16, 48, 1600 if ALL else 600
ROLLOUT = RolloutConfig(max_batch=MANY, max_prompt_tokens=4, max_new_tokens=TOKENS)
Table = dict[tuple[int, int, int], float]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 2048}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False, "eos_token_id": None, "bos_token_id": None}
    torch.manual_seed(2)
    target: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen2", **sizes, **heads)).eval()  # type: ignore[no-untyped-call]
    for weight in target.parameters():
        torch.nn.init.normal_(weight, std=0.6)
    for layer in target.model.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
    return target


@pytest.fixture(scope="module")
def engine(model: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SGLangEngine]:
    """Trees of three levels for few responses, chains of one token for many, and off: at random in half of the steps."""
    folder: Path = tmp_path_factory.mktemp("law")
    model.save_pretrained(folder)
    speculation = shapes((3, 2, 5), (1, 1, 1), tuner={"name": "beg", "epsilon": 0.5, "thresholds": [1, FEW + 1]})
    with sglang_engine(folder, model, ROLLOUT, speculation, drafter_weights=random_drafter(model)) as engine:
        yield engine


def transitions(model: PreTrainedModel, sampling: Sampling) -> Tensor:
    """[V, V]: the law of a token after each token, whatever was before it."""
    cut = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature), TopPLogitsWarper(sampling.top_p)])
    contexts = torch.tensor([[first, last] for last in range(VOCABULARY) for first in range(VOCABULARY)])
    with torch.inference_mode():
        laws = cut(contexts, model(contexts).logits[:, -1].double()).softmax(-1).view(VOCABULARY, VOCABULARY, VOCABULARY)  # type: ignore[arg-type]
    torch.testing.assert_close(laws, laws[:, :1].expand_as(laws))
    return laws[:, 0]


def p_value(law: Tensor, counts: Counter[tuple[int, int, int]]) -> float:
    """Of a chi-square test of the two tokens after each one, given how often that one was there. 0 if one came that cannot be."""
    starts = Counter({token: sum(n for triple, n in counts.items() if triple[0] == token) for token in range(VOCABULARY)})
    triples = [(a, b, c) for a in range(VOCABULARY) for b in range(VOCABULARY) for c in range(VOCABULARY)]
    expected = {(a, b, c): starts[a] * float(law[a, b] * law[b, c]) for a, b, c in triples}
    if any(counts[triple] and not expected[triple] for triple in triples):
        return 0.0
    common = [triple for triple in triples if expected[triple] >= 5]
    rare = [triple for triple in triples if expected[triple] < 5]
    seen = [counts[triple] for triple in common] + [sum(counts[triple] for triple in rare)]
    wanted = [expected[triple] for triple in common] + [sum(expected[triple] for triple in rare)]
    if wanted[-1] < 5:
        seen, wanted = seen[:-1], wanted[:-1]
        wanted = [value * sum(seen) / sum(wanted) for value in wanted]
    return float(chisquare(seen, wanted, ddof=sum(count > 0 for count in starts.values()) - 1).pvalue)


@only_with_all
@pytest.mark.parametrize("sampling", first(1, [Sampling(0.7, 0.9, seed=2), Sampling(seed=1)]), ids=str)
def test_samples_have_the_law_of_the_target(engine: SGLangEngine, model: PreTrainedModel, sampling: Sampling) -> None:
    """38,000 sampled tokens, which tell a temperature from one that is a tenth higher; 10^5 with ``make test-all``."""
    requests = [Request(index, index, (index % VOCABULARY,)) for index in range(FEW + MANY)]
    sampling = replace(sampling, max_new_tokens=TOKENS)
    completions = engine.generate(requests[:FEW], sampling) + engine.generate(requests[FEW:], sampling)
    texts = [(*completion.request.prompt, *completion.tokens) for completion in completions]
    assert sum(len(completion.tokens) for completion in completions) == (FEW + MANY) * TOKENS
    counts = Counter((text[at], text[at + 1], text[at + 2]) for text in texts for at in range(0, TOKENS, 2))
    assert p_value(transitions(model, sampling), counts) > 1e-3
    warmer = replace(sampling, temperature=1.1 * sampling.temperature)
    assert p_value(transitions(model, warmer), counts) < 1e-3, "the test must be able to tell laws apart"
    statistics = engine.take_statistics()
    assert {arm.strategy for arm in statistics.arms} == {"off", "eagle d3 k2 v5", "eagle d1 k1 v1"}
    assert 0.05 < statistics.accepted_by_position[0] / statistics.drafted_by_position[0] < 0.95
