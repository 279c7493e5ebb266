"""Trees of drafts against their growth, their ancestors and their acceptance written down node by node."""

import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.rollout.native.draft_tree import CHILD_PENALTY, FLOOR, NO_DRAFT, Candidates, DraftTree, likeliest, with_given_drafts

CPU = torch.device("cpu")
Path = tuple[int, ...]


def table(kind: str, vocabulary: int, generator: torch.Generator) -> Tensor:
    """Log-probabilities of one node's children. Tied: all are 0, 1/2, 1/4 ... and several equal; certain: one is 1, the others 0."""
    if kind == "tied":
        return -0.6931471805599453 * torch.randint(4, (vocabulary,), generator=generator).float()
    logits = torch.randn(vocabulary, generator=generator) * 3
    if kind == "impossible":
        logits[torch.rand(vocabulary, generator=generator) < 0.6] = -torch.inf
        logits[torch.randint(vocabulary, (1,), generator=generator)] = 0.0
    if kind == "certain":
        logits = torch.full((vocabulary,), -torch.inf)
        logits[torch.randint(vocabulary, (1,), generator=generator)] = 0.0
    return logits.log_softmax(-1)


def score(path: Path, tables: dict[Path, Tensor]) -> float:
    return sum(max(float(tables[path[:level]][token]), FLOOR) for level, token in enumerate(path))


def highest(scores: Sequence[float], count: int) -> list[float]:
    return sorted(scores, reverse=True)[:count]


def grow(candidates: Candidates, logprobs: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """By ``logprobs`` [n, frontier, vocabulary]."""
    best, tokens = logprobs.flatten(0, 1).topk(top_k)
    return candidates.grow(tokens, best)


def paths_of(tree: DraftTree, request: int) -> list[Path]:
    """The path to each node that exists, by walking up to node 0."""
    tokens: list[int] = tree.tokens[request].tolist()
    paths: list[Path] = []
    for place, token in enumerate(tokens):
        if token != NO_DRAFT:
            path: Path = ()
            node = place + 1
            while node:
                path = (tokens[node - 1], *path)
                node = node - 1 if tree.parents is None else int(tree.parents[request, node - 1])
            paths.append(path)
    return paths


@pytest.mark.parametrize("kind", ["ordinary", "impossible", "tied", "certain"])
@given(seed=st.integers(0, 2**31), requests=st.integers(1, 3), depth=st.integers(1, 5), top_k=st.integers(2, 4), data=st.data())
def test_the_drafted_nodes_of_highest_path_probability_are_verified(
    kind: str, seed: int, requests: int, depth: int, top_k: int, data: st.DataObject
) -> None:
    """Grown beside it: all children of each frontier node, of which the likeliest ``top_k`` are drafted. Where probabilities are
    equal, the tree's choice of a frontier is followed. A level counts ``CHILD_PENALTY`` less, which is the tolerance."""
    vocabulary, tolerance = 5, 2 * CHILD_PENALTY * depth
    generator = torch.Generator().manual_seed(seed)
    tables: list[dict[Path, Tensor]] = [{} for _ in range(requests)]
    frontiers: list[list[Path]] = [[()] for _ in range(requests)]
    drafted: list[list[float]] = [[] for _ in range(requests)]
    candidates = Candidates(requests, top_k, CPU)
    for _ in range(depth):
        for known, frontier in zip(tables, frontiers, strict=True):
            known |= {path: table(kind, vocabulary, generator) for path in frontier}
        logprobs = torch.stack([torch.stack([known[path] for path in f]) for known, f in zip(tables, frontiers, strict=True)])
        tokens, parents = grow(candidates, logprobs, top_k)
        for request, (known, frontier) in enumerate(zip(tables, frontiers, strict=True)):
            children = [
                value for path in frontier for value in highest([score((*path, token), known) for token in range(vocabulary)], top_k)
            ]
            drafted[request] += children
            chosen = zip(tokens[request].tolist(), parents[request].tolist(), strict=True)
            frontier = frontiers[request] = [(*frontier[parent], token) for token, parent in chosen]
            assert len(set(frontier)) == top_k
            best = highest(children, top_k)
            assert highest([score(path, known) for path in frontier], top_k) == pytest.approx(best, abs=tolerance)
    verify = data.draw(st.integers(1, len(drafted[0])))
    tree = likeliest(candidates.grown(), verify, depth)
    assert tree.complete
    assert tree.parents is not None
    assert tree.levels is not None
    assert tree.tokens.shape == tree.parents.shape == tree.levels.shape == (requests, verify)
    assert (tree.parents < torch.arange(1, verify + 1)).all(), "parents come before children"
    for request, known in enumerate(tables):
        paths = paths_of(tree, request)
        assert len(set(paths)) == verify
        assert [len(path) for path in paths] == tree.levels[request].tolist()
        assert {path[:-1] for path in paths} <= {(), *paths}, "ancestors are included"
        assert all(path[:-1] in known for path in paths), "only nodes of a frontier have children"
        best = highest(drafted[request], verify)
        assert highest([score(path, known) for path in paths], verify) == pytest.approx(best, abs=tolerance)
    assert tree.depths.tolist() == [max(map(len, paths_of(tree, request))) for request in range(requests)]


def test_a_tree_worked_out_by_hand() -> None:
    """Path probabilities of two levels, two branches each: a .6, b .3; below a: .9 and .1 of .6, below b: .8 and .2 of .3."""
    candidates = Candidates(1, 2, CPU)
    tokens, parents = grow(candidates, torch.tensor([[[0.3, 0.6, 0.1]]]).log(), 2)
    assert (tokens.tolist(), parents.tolist()) == ([[1, 0]], [[0, 0]])
    tokens, parents = grow(candidates, torch.tensor([[[0.1, 0.0, 0.9], [0.2, 0.8, 0.0]]]).log(), 2)
    assert (tokens.tolist(), parents.tolist()) == ([[2, 1]], [[0, 1]])
    for verify, expected in ((1, {(1,)}), (2, {(1,), (1, 2)}), (3, {(1,), (1, 2), (0,)}), (4, {(1,), (1, 2), (0,), (0, 1)})):
        assert set(paths_of(likeliest(candidates.grown(), verify, 2), 0)) == expected


def random_tree(rng: random.Random, requests: int, size: int, vocabulary: int) -> DraftTree:
    """Any trees with parents before children, siblings different, and NO_DRAFT at the end; possibly empty."""
    columns: tuple[list[list[int]], ...] = ([], [], [])
    for _ in range(requests):
        children: dict[int, list[int]] = {}
        row: list[tuple[int, int, int]] = []
        for node in range(1, rng.randint(0, size) + 1):
            parent = rng.choice([each for each in range(node) if len(children.get(each, ())) < vocabulary])
            token = rng.choice([each for each in range(vocabulary) if each not in children.get(parent, ())])
            children.setdefault(parent, []).append(token)
            row.append((token, parent, row[parent - 1][2] + 1 if parent else 1))
        row += [(NO_DRAFT, 0, 1)] * (size - len(row))
        for column, values in zip(columns, zip(*row, strict=True), strict=True):
            column.append(list(values))
    tokens, parents, levels = map(torch.tensor, columns)
    return DraftTree(tokens, parents, levels, complete=bool((tokens != NO_DRAFT).all()))


def random_chains(rng: random.Random, requests: int, size: int, vocabulary: int) -> DraftTree:
    return DraftTree(torch.tensor([[rng.randrange(vocabulary) for _ in range(size)] for _ in range(requests)]))


@given(rng=st.randoms(use_true_random=False), requests=st.integers(1, 3), size=st.integers(1, 9), chains=st.booleans())
def test_ancestors_are_those_of_a_walk_to_the_root(rng: random.Random, requests: int, size: int, chains: bool) -> None:
    tree = (random_chains if chains else random_tree)(rng, requests, size, 3)
    ancestors = tree.ancestors()
    for request in range(requests):
        for node in range(size + 1):
            path, walker = {node}, node
            while walker:
                walker = walker - 1 if tree.parents is None else int(tree.parents[request, walker - 1])
                path.add(walker)
            assert set(ancestors[request, node].nonzero()[:, 0].tolist()) == path


@given(
    rng=st.randoms(use_true_random=False),
    requests=st.integers(1, 3),
    size=st.integers(1, 9),
    shape=st.sampled_from(["tree", "chain"]),
)
def test_accepted_are_the_drafts_on_the_path_that_the_target_draws(rng: random.Random, requests: int, size: int, shape: str) -> None:
    vocabulary = 2
    tree = (random_tree if shape == "tree" else random_chains)(rng, requests, size, vocabulary)
    drawn = torch.tensor([[rng.randrange(vocabulary) for _ in range(size + 1)] for _ in range(requests)])
    drawn[:, 1:][tree.tokens == NO_DRAFT] = NO_DRAFT
    accepted = tree.accepted(drawn, None if shape != "tree" else tree.ancestors())
    for request in range(requests):
        paths, node, expected = paths_of(tree, request), 0, set()
        path: Path = ()
        while (path := (*path, int(drawn[request, node]))) in paths:
            node = paths.index(path) + 1
            expected.add(node)
        assert set((accepted[request].nonzero()[:, 0] + 1).tolist()) == expected


@given(rng=st.randoms(use_true_random=False), requests=st.integers(1, 4), learned=st.sampled_from(["tree", "chain", None]))
def test_each_request_keeps_the_drafts_it_was_given(rng: random.Random, requests: int, learned: str | None) -> None:
    size = rng.randint(1, 6)
    mine = None if learned is None else (random_tree if learned == "tree" else random_chains)(rng, requests, size, 3)
    chains = [tuple(rng.randrange(3) for _ in range(rng.randint(0, 8))) for _ in range(requests)]
    given_ = [chain if mine is None or rng.random() < 0.5 else None for chain in chains]
    tree = with_given_drafts(mine, given_, CPU)
    for request, chain in enumerate(given_):
        prefixes = None if chain is None else [chain[: n + 1] for n in range(len(chain))]
        assert paths_of(tree, request) == (paths_of(mine, request) if prefixes is None and mine else prefixes)
        there = tree.tokens[request] != NO_DRAFT
        assert there.long().sort(descending=True).values.equal(there.long()), "what is missing is at the end"
    assert tree.depths.tolist() == [max(map(len, paths_of(tree, request)), default=0) for request in range(requests)]
    assert not (tree.complete and (tree.tokens == NO_DRAFT).any())
    assert tree.complete or (tree.tokens == NO_DRAFT).any() or (mine and not mine.complete)
    if tree.levels is not None:
        assert tree.levels.max() <= max(1, int(tree.depths.max())), "there is noise for no more levels"
        for request in range(requests):
            paths = paths_of(tree, request)
            assert tree.levels[request, : len(paths)].tolist() == list(map(len, paths))
