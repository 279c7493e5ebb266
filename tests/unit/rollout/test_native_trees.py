"""What a step drafts and accepts, chains and trees, is what the training module drafts, run along each path without any cache."""

from collections.abc import Sequence

import pytest
import torch
from native_cases import NGRAMS, TREES, RandomTuner, make_engine, make_requests, strategies
from test_native_drafting import DEEPEST, LIMIT, make_case
from torch import Tensor
from transformers import PreTrainedModel

from engine.drafter.model import Drafter
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.draft_tree import CHILD_PENALTY
from engine.rollout.native.engine import NativeEngine
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.strategy import RunningRequest, Strategy

SHAPES = tuple((tree.depth, tree.top_k, tree.verify) for tree in TREES)
Path = tuple[int, ...]


class Watched(Speculator):
    """Takes notes: of each step the requests' ids, the plan, the drafts accepted, and the tokens kept."""

    steps: list[tuple[list[int], StepPlan, Sequence[int], Sequence[int]]]

    def begin(self, limit: int) -> None:
        super().begin(limit)
        self.steps = []

    def plan(self, batch: Sequence[RunningRequest], learned: bool) -> StepPlan:
        self._batch = [request.id for request in batch]
        return super().plan(batch, learned)

    def record(self, plan: StepPlan, accepted: Sequence[int], kept: Sequence[int], elapsed: float) -> None:
        self.steps.append((self._batch, plan, accepted, kept))
        super().record(plan, accepted, kept, elapsed)


def make_attentive(family: str) -> tuple[PreTrainedModel, Drafter]:
    """Its drafter looks around so much that a wrong position or a wrong branch among its keys would change its drafts."""
    target, drafter = make_case(family)
    with torch.no_grad():
        for name, weight in drafter.named_parameters():
            if "self_attn" in name and "norm" not in name:
                weight.add_(torch.randn_like(weight), alpha=0.3 if "q_proj" in name or "k_proj" in name else 0.1)
    return target, drafter


@torch.inference_mode()
def drafted_offline(target: PreTrainedModel, drafter: Drafter, known: Tensor, shape: Strategy) -> set[Path]:
    """The ``verify`` paths of highest probability of those that grow by ``top_k`` children of each of a level's ``top_k`` best paths.

    ``known`` [T] are the tokens so far. Each path of a level is run from the first token on.
    """
    frontier: list[tuple[float, Path]] = [(0.0, ())]
    features = target.model(known[None]).last_hidden_state[:, :-1]  # [paths, T - 1, hidden], of all but a path's last token
    found: list[tuple[float, Path]] = []
    for _ in range(shape.depth):
        tokens = torch.stack([torch.cat((known, torch.tensor(path, dtype=torch.long))) for _, path in frontier])
        positions = torch.arange(tokens.shape[1] - 1).expand(len(frontier), -1)
        predictions = drafter(target.get_input_embeddings()(tokens[:, 1:]), features, positions)[:, -1:]
        likeliest = target.lm_head(predictions)[:, 0].log_softmax(-1).topk(shape.top_k)
        children = [
            ((score + logprob - CHILD_PENALTY, (*path, token)), parent)
            for parent, (score, path) in enumerate(frontier)
            for logprob, token in zip(likeliest.values[parent].tolist(), likeliest.indices[parent].tolist(), strict=True)
        ]
        found += [child for child, _ in children]
        best = sorted(children, reverse=True)[: shape.top_k]
        frontier, parents = [child for child, _ in best], [parent for _, parent in best]
        features = torch.cat((features, predictions), 1)[parents]
    return {path for _, path in sorted(found, reverse=True)[: shape.verify]}


def agreed(paths: set[Path], truth: Sequence[int]) -> int:
    """How many of the tokens to come are drafted."""
    return max((len(path) for path in paths if path == tuple(truth[: len(path)])), default=0)


def watch(engine: NativeEngine, speculator: Watched, tuner: RandomTuner | None = None) -> Watched:
    if tuner:
        speculator.tuner = tuner
    engine.speculator = speculator
    return speculator


def check(engine: NativeEngine, target: PreTrainedModel, drafter: Drafter, requests: list[Request], speculator: Watched) -> dict[str, int]:
    """Follows a greedy rollout step by step; returns how many steps each strategy was used for and accepted something."""
    completions = engine.generate(requests, Sampling(temperature=0, max_new_tokens=LIMIT))
    longer = make_engine(target).generate(requests, Sampling(temperature=0, max_new_tokens=LIMIT + DEEPEST))
    truths = {completion.request.id: torch.tensor(completion.request.prompt + completion.tokens) for completion in longer}
    places = {request.id: len(request.prompt) for request in requests}
    uses: dict[str, int] = {}
    for batch, plan, accepted, kept in speculator.steps:
        for i, (request, count, tokens) in enumerate(zip(batch, accepted, kept, strict=True)):
            truth, place = truths[request], places[request]
            given = plan.given[i] if plan.given else None
            if given is not None:
                paths = {given[: n + 1] for n in range(len(given))}
            else:
                paths = drafted_offline(target, drafter, truth[:place], plan.shape) if plan.shape else set()
            expected = agreed(paths, truth[place:].tolist())
            assert count == expected, (request, place, plan)
            name = "off" if not paths else "given" if given is not None else str(plan.shape)
            uses[name] = uses.get(name, 0) + (count > 0 or not paths)
            places[request] += tokens
    assert all(places[completion.request.id] == len(completion.request.prompt) + LIMIT for completion in completions)
    return uses


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_trees_drafts_are_those_of_the_training_module(family: str, tree: Strategy) -> None:
    """Three requests in two slots."""
    target, drafter = make_attentive(family)
    config = strategies((tree.depth, tree.top_k, tree.verify))
    engine = make_engine(target, drafter.state_dict(), config, slots=2)
    uses = check(engine, target, drafter, make_requests(3, 48, seed=3), watch(engine, Watched(config, 0)))
    assert uses[str(tree)] > 5


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_so_they_are_whatever_was_used_in_the_steps_before(family: str) -> None:
    """Chains, trees, suffix drafts and plain decoding in turn at random, four siblings and two others in four slots."""
    target, drafter = make_attentive(family)
    config = strategies(*SHAPES, suffix=True)
    engine = make_engine(target, drafter.state_dict(), config, slots=4)
    tuner = RandomTuner(DEEPEST, seed=1, more=(*TREES, *TREES, *NGRAMS))
    speculator = watch(engine, Watched(config, 0), tuner)
    uses: dict[str, int] = {}
    for seed in range(6):
        requests = [*make_requests(4, 48, group=4, seed=seed), *make_requests(6, 48, seed=seed)[4:]]
        for name, count in check(engine, target, drafter, requests, speculator).items():
            uses[name] = uses.get(name, 0) + count
    assert uses["off"] > 0
    assert uses["given"] > 0
    assert all(uses[str(tree)] > 0 for tree in TREES)
    assert sum(uses.get(str(Strategy("eagle", n, 1, n)), 0) for n in range(1, DEEPEST + 1)) > 0
