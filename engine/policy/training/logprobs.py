"""Log-probabilities of given tokens from hidden states, without ever holding all logits."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

LOGITS_AT_ONCE = 2**25  # 128 MB in fp32
LOGITS_IN_CACHE = 2**23
"""Of inference on a CPU, whose caches hold a good part of them."""


def label_logprobs(hidden: Tensor, head: nn.Linear, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities of ``labels`` [N] and entropies (without gradient), both [N] in nats, under ``head(hidden) / temperature``.

    ``hidden`` is [N, H]. More than ``LOGITS_AT_ONCE`` logits are computed in chunks, and again in the backward pass. Where gradients are
    off, in inference, nobody looks at entropies: they are 0.
    """
    inferring = not torch.is_grad_enabled()
    most = LOGITS_IN_CACHE if inferring and hidden.device.type == "cpu" else LOGITS_AT_ONCE
    size = max(1, most // head.out_features)
    if len(labels) <= size:
        return _logprobs_and_entropies(hidden, head, labels, temperature)
    chunks = zip(torch.split(hidden, size), torch.split(labels, size), strict=True)
    parts = [checkpoint(_logprobs_and_entropies, states, head, targets, temperature, use_reentrant=False) for states, targets in chunks]
    logprobs, entropies = zip(*parts, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _logprobs_and_entropies(hidden: Tensor, head: nn.Linear, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logits = head(hidden).float()
    if temperature != 1:
        logits = logits / temperature
    normaliser = logits.logsumexp(dim=-1)
    logprobs = logits.gather(-1, labels[:, None]).squeeze(-1) - normaliser
    if not torch.is_grad_enabled():
        return logprobs, torch.zeros_like(logprobs)
    with torch.no_grad():
        probabilities = (logits - normaliser[:, None]).exp()
        entropies = normaliser - (probabilities * logits).sum(dim=-1)
    return logprobs, entropies
