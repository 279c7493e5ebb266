"""The EAGLE training recipe (TLT section 4): one forward pass, regress the next feature and match the target's next-token law."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import linear, log_softmax, smooth_l1_loss, softmax


@dataclass(frozen=True)
class Eagle:
    """Loss weights; the defaults are those of the released TLT code."""

    feature_weight: float = 1.0
    token_weight: float = 0.1

    def loss(self, predicted: Tensor, features: Tensor, head: Tensor) -> Tensor:
        """Mean over N positions of weighted smooth-L1(h', h) + soft-target cross entropy of the two laws under ``head``.

        ``predicted`` h'[t+1] and ``features`` h[t+1], both [N, H]; ``head`` [V, H] is frozen.
        """
        regression = smooth_l1_loss(predicted, features)
        target = softmax(linear(features, head).float(), dim=-1)
        cross_entropy = -(target * log_softmax(linear(predicted, head).float(), dim=-1)).sum(-1).mean()
        return self.feature_weight * regression + self.token_weight * cross_entropy


def top1_agreement(predicted: Tensor, features: Tensor, head: Tensor) -> Tensor:
    """For each of N positions: do drafter and target have the same most likely token (what greedy acceptance counts)? [N]"""
    return linear(predicted, head).argmax(-1) == linear(features, head).argmax(-1)


def acceptance(predicted: Tensor, features: Tensor, head: Tensor) -> Tensor:
    """For each of N positions the probability that a sampled draft is accepted: sum over x of min(p(x), q(x)). [N]"""
    target = softmax(linear(features, head).float(), dim=-1)
    return target.minimum(softmax(linear(predicted, head).float(), dim=-1)).sum(-1)
