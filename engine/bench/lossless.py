"""``bench lossless``: speculation changes no token and no law, with a good drafter and with bad ones."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.bench.testbed import Bed, fixed, timed
from engine.config import RolloutConfig, SpeculationConfig
from engine.drafter.model import Drafter
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.from_model import engine_from_model

VOCABULARY, LENGTH = 6, 3
LAWS = {
    "temperature 1": Sampling(),
    "temperature 0.7, top-p 0.9": Sampling(0.7, 0.9),
    "temperature 1.3, top-k 4": Sampling(1.3, top_k=4),
    "min-p 0.1": Sampling(min_p=0.1),
}


def run(quick: bool, model: str) -> dict[str, Any]:
    """Greedy and sampled tokens of plain and speculative decoding, and chi-square tests against an enumerated law."""
    bed = Bed(model)
    prompts = 64 if quick else 512
    greedy, differences = _compare(bed, prompts, Sampling(temperature=0, max_new_tokens=96))
    sampled, more = _compare(bed, prompts, Sampling(max_new_tokens=96))
    differences = sorted(differences + more)
    return {
        "facts": bed.facts(),
        "greedy_prompts": prompts,
        "greedy_mismatches": greedy,
        "sampled_mismatches": sampled,
        "logprobs": len(differences),
        "logprob_max_abs_diff": differences[-1],
        "logprob_above_1e-5": sum(difference > 1e-5 for difference in differences),
        "laws": [_law(name, law, samples=5_000 if quick else 100_000) for name, law in LAWS.items()],
    }


def _compare(bed: Bed, prompts: int, sampling: Sampling) -> tuple[int, list[float]]:
    """How many responses differ, and by how much the log-probabilities of the others' tokens do."""
    requests = bed.requests(prompts)
    plain = timed(bed.engine(None), requests, sampling).completions
    speculative = timed(bed.engine(SpeculationConfig()), requests, sampling).completions
    pairs = list(zip(plain, speculative, strict=True))
    equal = [(one, other) for one, other in pairs if one.tokens == other.tokens]
    return len(pairs) - len(equal), [abs(a - b) for one, other in equal for a, b in zip(one.logprobs, other.logprobs, strict=True)]


def _law(name: str, law: Sampling, samples: int) -> dict[str, Any]:
    """Speculates with a random drafter, the worst there is, on a random model whose law can be enumerated."""
    torch.manual_seed(0)
    model = _toy()
    drafter = Drafter(model.config).state_dict()
    engine = engine_from_model(model, frozenset(), fixed(3, 3, 6), drafter, rollout=RolloutConfig(max_batch=1000))
    prompt = (1, 2, 3)
    expected = _enumerate(model, prompt, law)
    requests = [Request(index, 0, prompt) for index in range(samples)]
    sampling = replace(law, max_new_tokens=LENGTH)
    counts = Counter(completion.tokens for completion in engine.generate(requests, sampling))
    support = [tokens for tokens, probability in expected.items() if probability * samples >= 5]
    observed = [counts[tokens] for tokens in support]
    wanted = [expected[tokens] * samples for tokens in support]
    observed.append(samples - sum(observed))
    wanted.append(samples - sum(wanted))
    return {"name": name, "samples": samples, "p_value": _chi_square_p(observed, wanted)}


def _chi_square_p(observed: Sequence[int], wanted: Sequence[float]) -> float:
    """How probable counts that are at least as far from the wanted ones are by chance. Means of 0 tell nothing."""
    counts, means = (torch.tensor(values, dtype=torch.float64) for values in (observed, wanted))
    told = means > 1e-6
    distance = ((counts - means)[told] ** 2 / means[told]).sum()
    return float(torch.special.gammaincc((told.sum() - 1) / 2, distance / 2))


def _toy() -> PreTrainedModel:
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    return Qwen2ForCausalLM(config)  # type: ignore[no-untyped-call]


@torch.no_grad()
def _enumerate(model: PreTrainedModel, prompt: tuple[int, ...], law: Sampling) -> dict[tuple[int, ...], float]:
    """The probability of every response, by transformers' own forward pass and logits processors."""
    responses = list(product(range(VOCABULARY), repeat=LENGTH))
    logits = model(input_ids=torch.tensor([[*prompt, *response] for response in responses])).logits[:, len(prompt) - 1 : -1].double()
    processors = LogitsProcessorList([TemperatureLogitsWarper(law.temperature)])
    if law.top_k:
        processors.append(TopKLogitsWarper(law.top_k))
    if law.top_p < 1:
        processors.append(TopPLogitsWarper(law.top_p))
    if law.min_p:
        processors.append(MinPLogitsWarper(law.min_p))
    laws = processors(torch.LongTensor(), logits.flatten(0, 1)).softmax(-1).view_as(logits)
    chosen = laws.gather(-1, torch.tensor(responses)[:, :, None])[..., 0].prod(-1)
    return dict(zip(responses, chosen.tolist(), strict=True))
