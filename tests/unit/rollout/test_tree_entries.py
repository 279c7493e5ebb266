"""Where nodes of trees lie: in the lane of their place in plain decoding, behind their parents, and nobody in another's entry."""

import pytest
import torch

from engine.config import SpeculationConfig
from engine.rollout.native.attention import part_length, part_of
from engine.rollout.native.draft_tree import NO_DRAFT, Candidates, DraftTree, likeliest
from engine.rollout.native.reach import BLOCK, LANES, entries_needed
from engine.rollout.native.tree_entries import placed

VOCABULARY = 40
DEFAULT = [(each.depth, each.top_k, each.verify) for each in SpeculationConfig().strategies if each.top_k > 1]


def make_tree(requests: int, depth: int, top_k: int, verify: int) -> DraftTree:
    generator = torch.Generator().manual_seed(depth)
    candidates = Candidates(requests, top_k, torch.device("cpu"))
    frontier = 1
    for _ in range(depth):
        logprobs = torch.randn(requests, frontier, VOCABULARY, generator=generator).mul(3).log_softmax(-1)
        values, tokens = logprobs.topk(top_k, -1)
        candidates.grow(tokens.flatten(0, 1), values.flatten(0, 1))
        frontier = top_k
    return likeliest(candidates.grown(), verify, depth)


@pytest.mark.parametrize(("depth", "top_k", "verify"), [*DEFAULT, (20, 2, 30), (12, 16, 128)])
def test_every_node_that_is_kept_lies_where_it_may(depth: int, top_k: int, verify: int) -> None:
    newest = list(range(3, 3 + BLOCK, 7))
    before = make_tree(len(newest), depth, top_k, verify)
    after, offsets = placed(before, newest)
    assert before.parents is not None
    assert before.levels is not None
    assert offsets.min() >= 0
    assert offsets.max() < entries_needed(verify)
    kept = 0
    for row, start in enumerate(newest):
        tokens, parents, levels = (each[row].tolist() for each in (after.tokens, before.parents, before.levels))
        places = offsets[row].tolist()
        there = [node for node in range(verify) if tokens[node] != NO_DRAFT]
        assert len({places[0], *(places[node + 1] for node in there)}) == len(there) + 1
        for node in there:
            place, level, parent = places[node + 1], levels[node], parents[node]
            assert (place - level) % LANES == 0
            assert part_of(start + place, part_length()) == part_of(start + level, part_length())
            assert places[parent] < place
            assert parent == 0 or parent - 1 in there
            assert tokens[node] == before.tokens[row, node]
        kept += len(there)
    assert after.complete == (kept == len(newest) * verify)
    assert kept > (0.7 if verify < 30 else 0.1) * len(newest) * verify


def test_what_is_no_draft_lies_behind_all_others() -> None:
    tree = DraftTree(torch.tensor([[5, 6, NO_DRAFT]]), torch.tensor([[0, 1, 0]]), torch.tensor([[1, 2, 1]]), complete=False)
    after, offsets = placed(tree, [10])
    assert offsets.tolist() == [[0, 1, 2, 3]]
    assert after.tokens.tolist() == tree.tokens.tolist()


def test_a_node_whose_parent_has_no_room_goes_too() -> None:
    """Two branches six positions before the end of a part: the second would lie behind it."""
    parents, levels = torch.tensor([[0, 0, 1, 2]]), torch.tensor([[1, 1, 2, 2]])
    after, _ = placed(DraftTree(torch.tensor([[5, 6, 7, 8]]), parents, levels), [part_length() - 6])
    assert after.tokens.tolist() == [[5, NO_DRAFT, 7, NO_DRAFT]]
    assert not after.complete
