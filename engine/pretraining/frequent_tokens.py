"""The tokens that a drafter drafts from: few of many, for the head is most of what drafting costs (EAGLE-3's d2t; FR-Spec, arXiv
2502.14856). The target checks with its whole head, so responses stay the same."""

from collections import Counter

import torch
from torch import Tensor

from engine.drafter.new_drafter import leaves_out


def frequent_tokens(counts: Counter[int], whole: int, size: int) -> Tensor | None:
    """The ``size`` most frequent tokens, rising, int64 [size]; None for all of the ``whole`` vocabulary, if leaving tokens out is not
    worth it. Where fewer occur, the lowest ids follow: the most frequent merges of a byte-pair encoding."""
    if not leaves_out(size, whole):
        return None
    ranked = dict.fromkeys([*(token for token, _ in counts.most_common()), *range(whole)])
    return torch.tensor(sorted(list(ranked)[:size]))
