"""Lossless verification of drafts at temperatures above 0."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, np.dtype[np.float64]]


def top_k_renorm_prob(probs: Tensor, top_k: Tensor) -> Tensor:
    """[n, V]: the ``top_k`` [n] likeliest tokens of each row alone, summing to one."""
    ordered = probs.sort(-1, descending=True).values
    least = ordered.gather(-1, top_k.view(-1, 1).clamp(max=probs.shape[-1]).long() - 1)
    kept = probs.where(probs >= least, 0)
    return kept / kept.sum(-1, keepdim=True)


def top_p_renorm_prob(probs: Tensor, top_p: Tensor) -> Tensor:
    """[n, V]: the likeliest tokens of each row, until they have ``top_p`` [n] together, alone, summing to one."""
    ordered, order = probs.sort(-1, descending=True)
    kept = ordered.where(ordered.cumsum(-1) - ordered < top_p.view(-1, 1), 0)
    kept = torch.zeros_like(probs).scatter(-1, order, kept)
    return kept / kept.sum(-1, keepdim=True)


def tree_speculative_sampling_target_only(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    uniform_samples: Tensor,
    uniform_samples_for_final_sampling: Tensor,
    target_probs: Tensor,
    draft_probs: Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """As ``verify_tree_greedy_cpu``, but each token is drawn from its row of ``target_probs`` [B, n, V]: a draft is accepted with
    its probability there, siblings one after the other, and else the token is one of those that were not drafted.

    ``uniform_samples`` [B, n] and ``uniform_samples_for_final_sampling`` [B] are in [0, 1). Lossless thresholds only.
    """
    if threshold_single < 1 or threshold_acc < 1:
        raise NotImplementedError("acceptance thresholds below 1 are not lossless")
    depth, finals = accept_index.shape[1], uniform_samples_for_final_sampling.tolist()
    trees = zip(candidates, retrive_next_token, retrive_next_sibling, uniform_samples, target_probs, strict=True)
    for tree, (tokens, children, siblings, coins, probs) in enumerate(trees):
        links = (tokens.tolist(), children.tolist(), siblings.tolist(), coins.tolist())
        path, law = _walk(*links, probs.double().numpy(), depth)
        cumulated = law.cumsum()
        final = int(np.searchsorted(cumulated, finals[tree] * cumulated[-1], side="right"))
        index = retrive_index[tree, path]
        predicts[index[:-1]] = tokens[path[1:]].to(predicts.dtype)
        predicts[index[-1]] = min(final, int(law.nonzero()[0][-1]))
        accept_index[tree, : len(path)] = index.to(accept_index.dtype)
        accept_token_num[tree] = len(path) - 1


def _walk(
    tokens: list[int], children: list[int], siblings: list[int], coins: list[float], probs: Array, most: int
) -> tuple[list[int], Array]:
    """The accepted nodes from the root on, and the (unnormalised) law [V] of the token after the last one."""
    path = [0]
    while True:
        law, node, passed = probs[path[-1]].copy(), children[path[-1]], 0.0
        if len(path) == most:
            return path, law
        while node != -1:
            passed += float(law[tokens[node]])
            if coins[path[-1]] <= passed:
                break
            law[tokens[node]] = 0
            node = siblings[node]
        if node == -1:
            return path, law
        path.append(node)
