"""Draft trees (a chain is one) and their greedy verification.

Nodes of a tree are numbered from its root, the last known token. ``retrieve_next_token`` [B, n] is a node's first child and
``retrieve_next_sibling`` [B, n] its next sibling, -1 if there is none; ``retrieve_index`` [B, n] numbers the nodes of the whole batch.
"""

import torch
from torch import Tensor

QLEN_ONLY = 1


def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fills ``tree_mask`` [B, n, n] (a node sees itself and its ancestors), ``positions`` [B * n] and the links of n-node trees.

    ``selected_index`` [B, n - 1] are the drafts chosen among all that were drafted, ``topk`` to a parent; ``parent_list`` [B, ...]
    says which draft each of those parents is, its first entry being the root.
    """
    if tree_mask_mode != QLEN_ONLY:
        raise NotImplementedError(f"tree mask mode {tree_mask_mode}: the CPU backend uses {QLEN_ONLY}")
    batch, nodes = len(verified_seq_len), draft_token_num
    retrieve_index.copy_(torch.arange(batch * nodes).view(batch, nodes))
    masks = tree_mask[: batch * nodes * nodes].view(batch, nodes, nodes)
    for tree in range(batch):
        parents = _parents(parent_list[tree].tolist(), selected_index[tree].tolist(), topk)
        mask = torch.eye(nodes, dtype=torch.bool)
        for node in range(1, nodes):
            mask[node] |= mask[parents[node]]
        masks[tree] = mask
        positions.view(batch, nodes)[tree] = mask.sum(-1) - 1 + verified_seq_len[tree]
        _link(parents, retrieve_next_token[tree], retrieve_next_sibling[tree])


def _parents(parent_list: list[int], selected: list[int], topk: int) -> list[int]:
    """The parent of each node; the root is its own."""
    node_of = {draft: node for node, draft in enumerate(selected, 1)}
    return [0] + [node_of[parent_list[draft // topk]] if draft >= topk else 0 for draft in selected]


def _link(parents: list[int], first_child: Tensor, sibling: Tensor) -> None:
    first_child.fill_(-1)
    sibling.fill_(-1)
    for node in range(len(parents) - 1, 0, -1):
        sibling[node] = first_child[parents[node]]
        first_child[parents[node]] = node


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Follows the target's own tokens ``target_predict`` [B, n] down each tree of ``candidates`` [B, n].

    Writes the target's token after each accepted node into ``predicts`` [B * n], the accepted nodes with the root into
    ``accept_index`` [B, depth + 1], and the number of accepted drafts into ``accept_token_num`` [B].
    """
    links = zip(candidates.tolist(), retrive_next_token.tolist(), retrive_next_sibling.tolist(), target_predict.tolist(), strict=True)
    for tree, (tokens, children, siblings, wanted) in enumerate(links):
        path = [0]
        while len(path) < accept_index.shape[1]:
            node = children[path[-1]]
            while node != -1 and tokens[node] != wanted[path[-1]]:
                node = siblings[node]
            if node == -1:
                break
            path.append(node)
        accepted = retrive_index[tree, path]
        predicts[accepted] = target_predict[tree, path].to(predicts.dtype)
        accept_index[tree, : len(path)] = accepted.to(accept_index.dtype)
        accept_token_num[tree] = len(path) - 1


def reconstruct_indices_from_tree_mask(
    tree_mask: Tensor,
    verified_seq_len: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    """Fills ``positions`` [B * n] and the links of trees that are given by ``tree_mask`` [B * n * n]: a node sees itself and its
    ancestors."""
    masks = tree_mask.view(batch_size, draft_token_num, draft_token_num).bool()
    retrieve_index.copy_(torch.arange(batch_size * draft_token_num).view(batch_size, draft_token_num))
    positions.copy_((masks.sum(-1) - 1 + verified_seq_len[:, None]).flatten())
    for tree, mask in enumerate(masks):
        parents = [max((before for before in range(node) if mask[node, before]), default=0) for node in range(draft_token_num)]
        _link(parents, retrieve_next_token[tree], retrieve_next_sibling[tree])
