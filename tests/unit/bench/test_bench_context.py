"""The target that is built for the benchmark of training windows does what its description says."""

from itertools import pairwise

import torch

from engine.bench.recalling_target import LAWS, recalling_target, sequence

LENGTH = 3000


@torch.inference_mode()
def test_it_recalls_what_followed_however_far_back() -> None:
    """Of the places where a token stands for the second time and was followed as usual, most are more than a window away."""
    tokens = sequence(LENGTH, seed=0)
    best = recalling_target(LAWS["recall"], LENGTH)(torch.tensor([tokens])).logits[0].argmax(-1).tolist()
    last: dict[int, int] = {}
    far = []
    for place, (token, following) in enumerate(pairwise(tokens)):
        if token in last and tokens[last[token] + 1] == following and place - last[token] > 1024:
            far.append(best[place] == following)
        last[token] = place
    assert len(far) > 100
    assert sum(far) > 0.9 * len(far)


@torch.inference_mode()
def test_a_law_without_recall_ranks_tokens_by_the_newest_alone() -> None:
    model = recalling_target(LAWS["local"], LENGTH)
    one, other = (model(torch.tensor([[first, 5, 7]])).logits[0, -1].topk(20).indices for first in (1, 2))
    assert torch.equal(one, other)
