"""Lossless verification of drafts at temperatures above 0."""

import torch
from torch import Tensor


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
    for tree in range(len(candidates)):
        path, rest = _walk(
            candidates[tree],
            retrive_next_token[tree],
            retrive_next_sibling[tree],
            uniform_samples[tree],
            target_probs[tree],
            accept_index.shape[1],
        )
        index, tokens = retrive_index[tree, path], candidates[tree, path[1:]]
        cumulated = rest.cumsum(0)
        final = torch.searchsorted(cumulated, uniform_samples_for_final_sampling[tree] * cumulated[-1], right=True)
        predicts[index[:-1]] = tokens.to(predicts.dtype)
        predicts[index[-1]] = min(int(final), int(rest.nonzero()[-1]))
        accept_index[tree, : len(path)] = index.to(accept_index.dtype)
        accept_token_num[tree] = len(path) - 1


def _walk(tokens: Tensor, children: Tensor, siblings: Tensor, coins: Tensor, probs: Tensor, most: int) -> tuple[list[int], Tensor]:
    """The accepted nodes from the root on, and the (unnormalised) law [V] of the token after the last one."""
    path = [0]
    while True:
        law, coin, passed = probs[path[-1]].clone(), float(coins[path[-1]]), 0.0
        if len(path) == most:
            return path, law
        node = int(children[path[-1]])
        while node != -1:
            token = int(tokens[node])
            passed += float(probs[path[-1], token])
            if coin <= passed:
                break
            law[token] = 0
            node = int(siblings[node])
        if node == -1:
            return path, law
        path.append(node)
