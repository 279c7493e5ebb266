"""The exact law of a small model's responses, and the test of samples against it."""

from collections import Counter

import torch
from scipy.stats import chisquare
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    PreTrainedModel,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.rollout.interface import Sampling

Law = dict[tuple[int, ...], float]


def exact_law(target: PreTrainedModel, prompt: tuple[int, ...], length: int, end: int, sampling: Sampling) -> Law:
    """The probability of every response, from transformers alone."""
    processors = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        processors.append(TopKLogitsWarper(sampling.top_k))
    processors.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        processors.append(MinPLogitsWarper(sampling.min_p))
    law: Law = {}
    live: Law = {(): 1.0}
    for position in range(length):
        inputs = torch.tensor([prompt + prefix for prefix in live])
        with torch.inference_mode():
            probabilities: Tensor = processors(inputs, target(inputs).logits[:, -1].double()).softmax(-1)  # type: ignore[arg-type]
        grown: Law = {}
        for (prefix, mass), row in zip(live.items(), probabilities.tolist(), strict=True):
            for token, probability in enumerate(row):
                done = token == end or position == length - 1
                (law if done else grown)[(*prefix, token)] = mass * probability
        live = grown
    return law


def p_value(law: Law, samples: list[tuple[int, ...]]) -> float:
    """Of a chi-square test; outcomes that are expected less than five times count as one. 0 if there is one that cannot be."""
    counts = Counter(samples)
    if not all(law[outcome] > 0 for outcome in counts):
        return 0.0
    common = [outcome for outcome, mass in law.items() if mass * len(samples) >= 5]
    observed = [counts[outcome] for outcome in common]
    expected = [law[outcome] * len(samples) for outcome in common]
    rest = len(samples) - sum(expected)
    if rest >= 5:
        observed.append(len(samples) - sum(observed))
        expected.append(rest)
    scale = sum(observed) / sum(expected)
    return float(chisquare(observed, [count * scale for count in expected]).pvalue)
