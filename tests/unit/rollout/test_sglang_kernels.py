"""The CPU stand-in for SGLang's kernels against brute force."""

import ctypes
import random
from collections import Counter
from itertools import product

import pytest
import torch
from scipy.stats import chisquare
from sglang_cpu.sgl_kernel import cache, sampling, trees
from torch import Tensor

LINKS = 3  # retrieve_index, retrieve_next_token, retrieve_next_sibling


def attention_by_hand(q: Tensor, k: Tensor, v: Tensor, scaling: float) -> Tensor:
    """One query [Hq, D] over all of k and v [L, Hk, D]."""
    group = q.shape[0] // k.shape[1]
    rows = []
    for head, query in enumerate(q):
        scores = (k[:, head // group] @ query) * scaling
        rows.append(scores.softmax(-1) @ v[:, head // group])
    return torch.stack(rows)


def paged(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A cache of keys and of values [40, 2, 8], and the rows of each request's tokens, all mixed up."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 40, 2, 8, generator=generator)
    rows = torch.randperm(40, generator=generator)[: sum(lengths)].split(lengths)  # type: ignore[no-untyped-call]
    req_to_token = torch.zeros(5, 20, dtype=torch.int32)
    for request, own in enumerate(rows):
        req_to_token[4 - request, : len(own)] = own
    return keys, values, req_to_token


def test_decoding_attends_to_all_cached_tokens_and_the_new_one() -> None:
    lengths = [7, 1, 12]
    keys, values, req_to_token = paged(lengths)
    requests, seq_lens = torch.tensor([4, 3, 2]), torch.tensor(lengths)
    new_rows = torch.stack([req_to_token[request, length - 1] for request, length in zip(requests, lengths, strict=True)]).long()
    q, k, v = torch.randn(3, 4, 8), torch.randn(3, 2, 8), torch.randn(3, 2, 8)
    output = torch.empty_like(q)
    arguments = (1.0, 1.0, output, k, v, new_rows, torch.empty(0), req_to_token, requests, seq_lens, 0.3, 0.0, False, 0, None, None)
    torch.ops.sgl_kernel.decode_attention_cpu(q, keys, values, *arguments)
    for index, (request, length) in enumerate(zip(requests, lengths, strict=True)):
        rows = req_to_token[request, :length].long()
        assert torch.equal(keys[rows[-1]], k[index])
        torch.testing.assert_close(output[index], attention_by_hand(q[index], keys[rows], values[rows], 0.3))


@pytest.mark.parametrize("tree", [False, True])
def test_new_tokens_see_the_cache_and_each_other_as_masked(tree: bool) -> None:
    lengths, new = [9, 4], [3, 2]
    keys, values, req_to_token = paged(lengths)
    q = torch.randn(5, 4, 8)
    output = torch.empty_like(q)
    masks = [torch.rand(n, n).gt(0.5) | torch.eye(n, dtype=torch.bool) for n in new]
    packed = torch.cat([mask.flatten() for mask in masks]) if tree else None
    places = (torch.tensor([4, 3]), torch.tensor(lengths), torch.tensor(new), torch.tensor([0, 3]))
    arguments = (1.0, 1.0, req_to_token, *places, 3, 0.5, 0.0, False, 0, None, None, packed, True)
    torch.ops.sgl_kernel.extend_attention_cpu(q, None, None, output, keys, values, *arguments)
    for request, (length, count, start) in enumerate(zip(lengths, new, (0, 3), strict=True)):
        rows = req_to_token[4 - request, :length].long()
        for token in range(count):
            seen = [other for other in range(count) if (masks[request][token, other] if tree else other <= token)]
            known = torch.cat((rows[: length - count], rows[length - count :][seen]))
            expected = attention_by_hand(q[start + token], keys[known], values[known], 0.5)
            torch.testing.assert_close(output[start + token], expected)


def murmur3(data: bytes) -> int:
    """By the published algorithm, for whole blocks, seed 0."""
    hashed = 0
    for first in range(0, len(data), 4):
        block = int.from_bytes(data[first : first + 4], "little") * 0xCC9E2D51 % 2**32
        block = (block << 15 | block >> 17) % 2**32 * 0x1B873593 % 2**32
        hashed ^= block
        hashed = ((hashed << 13 | hashed >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B % 2**32
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 % 2**32
    return hashed ^ hashed >> 16


def test_the_hash_is_murmur3() -> None:
    seeds, places, columns = [0, 2**63 - 5, 123456789012345], [0, 7, 4000], [0, 1, 99]
    hashed = torch.ops.sgl_kernel.murmur_hash32_cpu.default(
        torch.tensor(seeds, dtype=torch.uint64), torch.tensor(places), torch.tensor(columns)
    )
    for row, seed, place in zip(hashed.tolist(), seeds, places, strict=True):
        assert row == [murmur3(seed.to_bytes(8, "little") + place.to_bytes(4, "little") + c.to_bytes(4, "little")) for c in columns]


def test_rows_of_the_cache_are_noted_and_found_again() -> None:
    req_to_token = torch.zeros(4, 10, dtype=torch.int32)
    requests, start, end = torch.tensor([2, 0]), torch.tensor([1, 0]), torch.tensor([4, 2])
    rows = torch.tensor([31, 32, 33, 41, 42])
    cache.assign_req_to_token_pool_cpu(requests, req_to_token, start, end, rows, 10)
    assert req_to_token[2, :5].tolist() == [0, 31, 32, 33, 0]
    assert req_to_token[0, :3].tolist() == [41, 42, 0]
    found = torch.zeros(5, dtype=torch.int64)
    cache.assign_extend_cache_locs_cpu(requests, req_to_token, start, end, found, 10)
    assert found.tolist() == rows.tolist()
    drafts = torch.zeros(4, dtype=torch.int64)
    cache.assign_draft_cache_locs_contiguous_cpu(requests, req_to_token, torch.tensor([2, 0]), drafts, 10, 1, 2)
    assert drafts.tolist() == [32, 33, 41, 42]


def test_each_branch_sees_its_request_and_its_own_drafts() -> None:
    req_to_token = torch.arange(30, dtype=torch.int32).view(3, 10)
    branches = cache.build_draft_decode_metadata_cpu(req_to_token, torch.tensor([2, 0]), torch.tensor([3, 1]), 2, 2, 10)
    assert branches[:, :5].tolist() == [[20, 21, 22, 23, 24], [20, 21, 22, 25, 26], [0, 1, 2, 0, 0], [0, 3, 4, 0, 0]]


def test_accepted_tokens_and_rows_are_packed() -> None:
    bonus = torch.zeros(2, dtype=torch.int64)
    cache.fill_bonus_tokens_cpu(torch.tensor([5, 6, 7, 8, 9, 10]), torch.tensor([2, 3]), bonus, 3)
    assert bonus.tolist() == [6, 10]
    rows = torch.full((4,), -7)
    cache.fill_accept_out_cache_loc_cpu(torch.tensor([[0, 2, -1], [3, -1, -1]]), torch.tensor([50, 51, 52, 53]), rows)
    assert rows.tolist() == [50, 52, 53, -7]


def test_rows_are_read_before_one_is_written() -> None:
    buffer = torch.arange(12.0).view(4, 3)
    pointers, strides = torch.tensor([buffer.data_ptr()]), torch.tensor([3 * ctypes.sizeof(ctypes.c_float)])
    cache.copy_all_layer_kv_cache_cpu(pointers, strides, torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert buffer[:, 0].tolist() == [3, 6, 6, 9]


def random_tree(rng: random.Random, nodes: int) -> list[int]:
    return [0, *(rng.randrange(node) for node in range(1, nodes))]


def links(parents: list[int]) -> tuple[Tensor, Tensor]:
    first_child, sibling = torch.empty(2, len(parents), dtype=torch.long)
    trees._link(parents, first_child, sibling)
    return first_child, sibling


def test_a_tree_is_built_from_the_drafts_that_were_chosen() -> None:
    """Two levels of two branches: drafts 0 and 1 below the root, 2 and 3 below draft 0, 4 and 5 below draft 1."""
    parent_list, chosen = torch.tensor([[-1, 0, 1]]), torch.tensor([[0, 1, 3, 4]])
    mask, positions = torch.ones(25, dtype=torch.bool), torch.zeros(5, dtype=torch.long)
    index, child, sibling = torch.full((LINKS, 1, 5), -1)
    trees.build_tree_kernel_efficient_cpu(parent_list, chosen, torch.tensor([7]), mask, positions, index, child, sibling, 2, 2, 5, 1)
    assert positions.tolist() == [7, 8, 8, 9, 9]
    assert child.tolist() == [[1, 3, 4, -1, -1]]
    assert sibling.tolist() == [[-1, 2, -1, -1, -1]]
    ancestors = [{0}, {0, 1}, {0, 2}, {0, 1, 3}, {0, 2, 4}]
    assert [set(row.nonzero().flatten().tolist()) for row in mask.view(5, 5)] == ancestors


def test_links_are_found_again_from_the_mask() -> None:
    rng = random.Random(1)
    forest = [random_tree(rng, 6) for _ in range(3)]
    masks = torch.eye(6, dtype=torch.bool).repeat(3, 1, 1)
    for mask, parents in zip(masks, forest, strict=True):
        for node in range(1, 6):
            mask[node] |= mask[parents[node]]
    positions, (index, child, sibling) = torch.zeros(18, dtype=torch.long), torch.full((LINKS, 3, 6), -7)
    trees.reconstruct_indices_from_tree_mask(masks.flatten(), torch.tensor([4, 1, 9]), positions, index, child, sibling, 3, 6)
    depths = [[len([0 for seen in mask[node].tolist() if seen]) - 1 for node in range(6)] for mask in masks]
    assert positions.view(3, 6).tolist() == [[length + depth for depth in each] for length, each in zip((4, 1, 9), depths, strict=True)]
    assert index.flatten().tolist() == list(range(18))
    for tree, parents in enumerate(forest):
        children = {node: [other for other in range(1, 6) if parents[other] == node] for node in range(6)}
        for node in range(6):
            found, following = [], int(child[tree, node])
            while following != -1:
                found.append(following)
                following = int(sibling[tree, following])
            assert found == children[node]


def test_greedy_verification_accepts_the_one_path_that_the_target_takes() -> None:
    rng = random.Random(0)
    for _ in range(200):
        nodes, depth = rng.randint(1, 8), rng.randint(1, 5)
        parents = random_tree(rng, nodes)
        tokens, wanted = [[rng.randrange(3) for _ in range(nodes)] for _ in range(2)]
        path = [0]
        while len(path) <= depth:
            step = next((n for n in range(1, nodes) if parents[n] == path[-1] and tokens[n] == wanted[path[-1]]), None)
            if step is None:
                break
            path.append(step)
        predicts, accepted, drafts = torch.full((nodes,), -1), torch.full((1, depth + 1), -1), torch.zeros(1, dtype=torch.long)
        first_child, sibling = links(parents)
        arguments = (torch.tensor([tokens]), torch.arange(nodes)[None], first_child[None], sibling[None], torch.tensor([wanted]))
        trees.verify_tree_greedy_cpu(predicts, accepted, drafts, *arguments)
        assert accepted[0, : len(path)].tolist() == path
        assert drafts.tolist() == [len(path) - 1]
        assert predicts[path].tolist() == [wanted[node] for node in path]


def test_laws_are_cut_as_asked() -> None:
    probs = torch.tensor([[0.1, 0.5, 0.15, 0.25], [0.4, 0.3, 0.2, 0.1]])
    cut = sampling.top_k_renorm_prob(probs, torch.tensor([2, 9]))
    torch.testing.assert_close(cut, torch.tensor([[0, 2 / 3, 0, 1 / 3], [0.4, 0.3, 0.2, 0.1]]))
    cut = sampling.top_p_renorm_prob(probs, torch.tensor([0.6, 1.0]))
    torch.testing.assert_close(cut, torch.tensor([[0, 2 / 3, 0, 1 / 3], [0.4, 0.3, 0.2, 0.1]]))


def test_verified_tokens_have_the_law_of_the_target() -> None:
    """A root with two drafted children, one of which has a child: the next two tokens are drawn from the target's law."""
    generator = torch.Generator().manual_seed(1)
    probs = torch.rand(1, 4, 3, generator=generator).softmax(-1)
    tokens, parents, samples = torch.tensor([[0, 1, 2, 0]]), [0, 0, 0, 1], 20_000
    first_child, sibling = links(parents)
    drawn: Counter[tuple[int, ...]] = Counter()
    for _ in range(samples):
        predicts, accepted, drafts = torch.zeros(4, dtype=torch.int32), torch.full((1, 3), -1), torch.zeros(1, dtype=torch.long)
        coins, last = torch.rand(1, 4, generator=generator), torch.rand(1, generator=generator)
        arguments = (tokens, torch.arange(4)[None], first_child[None], sibling[None], coins, last, probs, torch.zeros_like(probs))
        sampling.tree_speculative_sampling_target_only(predicts, accepted, drafts, *arguments)
        path = accepted[0, : int(drafts) + 1].tolist()
        drawn[tuple(predicts[path].tolist())] += 1
    root, one, two = probs[0, 0].tolist(), probs[0, 1].tolist(), probs[0, 2].tolist()
    law: dict[tuple[int, ...], float] = {(0,): root[0]} | {(2, token): root[2] * two[token] for token in range(3)}
    law |= {(1, token): root[1] * one[token] for token in (1, 2)}
    law |= {(1, 0, token): root[1] * one[0] * float(probs[0, 3, token]) for token in range(3)}
    assert set(drawn) == set(law)
    assert sum(law.values()) == pytest.approx(1)
    outcomes = sorted(law)
    assert chisquare([drawn[each] for each in outcomes], [law[each] * samples for each in outcomes]).pvalue > 1e-3


def test_a_draft_that_cannot_be_is_never_accepted_and_a_sure_one_always() -> None:
    for token, drafts_accepted in product((0, 1), (0, 1)):
        probs = torch.zeros(1, 2, 2)
        probs[0, 0, token if drafts_accepted else 1 - token] = probs[0, 1, 0] = 1
        predicts, accepted, drafts = torch.zeros(2, dtype=torch.int32), torch.full((1, 2), -1), torch.zeros(1, dtype=torch.long)
        first_child, sibling = links([0, 0])
        arguments = (torch.tensor([[0, token]]), torch.arange(2)[None], first_child[None], sibling[None])
        coins = (torch.full((1, 2), 0.999), torch.tensor([0.999]), probs, torch.zeros_like(probs))
        sampling.tree_speculative_sampling_target_only(predicts, accepted, drafts, *arguments, *coins)
        assert int(drafts) == drafts_accepted
        assert predicts.tolist()[0] == (token if drafts_accepted else 1 - token)
