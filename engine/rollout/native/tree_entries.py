"""Where in the cache the nodes of trees lie while they are verified."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.rollout.native.attention import part_length, part_of
from engine.rollout.native.draft_tree import NO_DRAFT, DraftTree
from engine.rollout.native.reach import LANES


def placed(tree: DraftTree, newest: Sequence[int]) -> tuple[DraftTree, Tensor]:
    """The trees, perhaps of fewer nodes, and how far behind the ``newest`` position [n] each of their nodes is to lie, [n, V + 1].

    A node lies behind its parent, in the lane and the part of a block of the position that it would have in plain decoding: so attention
    adds up its path in the same order (attention.py). Nodes for which there is no room are dropped, and those below them.
    """
    assert tree.parents is not None
    assert tree.levels is not None
    tokens = tree.tokens.tolist()
    rows = zip(tokens, tree.parents.tolist(), tree.levels.tolist(), newest, strict=True)
    offsets = torch.tensor([_offsets(*row) for row in rows], device=tree.tokens.device)
    kept = torch.tensor(tokens, device=tree.tokens.device)
    return replace(tree, tokens=kept, complete=tree.complete and bool((kept != NO_DRAFT).all())), offsets


def _offsets(drafts: list[int], parents: Sequence[int], levels: Sequence[int], newest: int) -> list[int]:
    """Of one tree. Drafts without room become NO_DRAFT; whatever is no draft lies behind the others, where nobody looks."""
    found, taken, part = [0], {0}, part_length()
    for node, (parent, level) in enumerate(zip(parents, levels, strict=True)):
        offset = found[parent] + level - (levels[parent - 1] if parent else 0)
        while offset in taken:
            offset += LANES
        room = part_of(newest + offset, part) == part_of(newest + level, part)
        if drafts[node] == NO_DRAFT or not room or (parent and drafts[parent - 1] == NO_DRAFT):
            drafts[node] = NO_DRAFT
            found.append(0)
        else:
            taken.add(offset)
            found.append(offset)
    behind = max(found) + 1
    return [0, *(behind if draft == NO_DRAFT else offset for draft, offset in zip(drafts, found[1:], strict=True))]
