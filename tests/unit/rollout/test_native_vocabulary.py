"""A drafter that drafts from some of the target's tokens drafts only those, and what is generated stays what it was."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import torch
from native_cases import (
    TREES,
    RandomTuner,
    chains,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    random_drafter,
    strategies,
    with_random_tuner,
)
from test_graph_pool import Rerun
from torch import Tensor
from transformers import PreTrainedModel

from engine.config import RolloutConfig, SpeculationConfig
from engine.drafter.kind import DrafterKind
from engine.drafter.vocabulary import offsets
from engine.errors import ModelError
from engine.rollout.interface import Completion, Sampling
from engine.rollout.native.drafting import Guesses
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.from_model import engine_from_model
from engine.rollout.native.sampling import TokenSampler
from engine.speculation.tuner.goodput import GoodputTuner

HALF = torch.arange(0, 48, 2)
FEW = torch.tensor([1, 5, 6, 30, 47])
ALL = torch.arange(48)
SHAPES = ((7, 1, 7), *((tree.depth, tree.top_k, tree.verify) for tree in TREES))
SHORT = Sampling(max_new_tokens=20)
LAWS = (
    replace(SHORT, temperature=0.0),
    replace(SHORT, seed=1),
    replace(SHORT, temperature=0.7, top_p=0.9, seed=2),
    replace(SHORT, temperature=1.2, top_k=6, seed=3),
    replace(SHORT, min_p=0.1, seed=4),
)


def drafting(weights: dict[str, Tensor], ids: Tensor | None) -> dict[str, Tensor]:
    return weights if ids is None else weights | {"d2t": offsets(ids)}


def make_drafting(ids: Tensor | None, dtype: torch.dtype = torch.float32) -> tuple[PreTrainedModel, dict[str, Tensor], NativeEngine]:
    """A target, its drafter without a vocabulary, and an engine that drafts from ``ids``, by another strategy at each step."""
    target = make_target(tie_word_embeddings=False)
    weights = make_guessable(target)
    engine = make_engine(target, drafting(weights, ids), strategies(*SHAPES), dtype=dtype)
    with_random_tuner(engine, RandomTuner(7, more=TREES))
    return target, weights, engine


def watch_drafts(engine: NativeEngine) -> Counter[int]:
    """Gets every token that is drafted from now on."""
    found: Counter[int] = Counter()
    verify = engine._runner._verify

    def watched(batch: Any, tree: Any, *rest: Any) -> Any:
        found.update(token for token in tree.tokens.flatten().tolist() if token >= 0)
        return verify(batch, tree, *rest)

    engine._runner._verify = watched  # type: ignore[method-assign,assignment]
    return found


def outcome(completions: list[Completion]) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    return [(completion.tokens, tuple(completion.logprobs)) for completion in completions]


@pytest.mark.parametrize("sampling", LAWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_responses_are_those_of_plain_decoding_to_the_bit(sampling: Sampling, dtype: torch.dtype) -> None:
    target, _, engine = make_drafting(HALF, dtype)
    drafts = watch_drafts(engine)
    requests = make_requests(30, 48, group=3)
    expected = make_engine(target, dtype=dtype).generate(requests, sampling)
    assert outcome(engine.generate(requests, sampling)) == outcome(expected)
    assert set(drafts) <= set(HALF.tolist())
    assert len(drafts) > 10
    assert engine.take_statistics().accepted_by_position[1] > 0


@pytest.mark.parametrize("sampling", LAWS)
def test_all_tokens_as_a_vocabulary_draft_as_none_do(sampling: Sampling) -> None:
    requests = make_requests(30, 48, group=3)
    counts = []
    for ids in (None, ALL):
        _, _, engine = make_drafting(ids)
        engine.generate(requests, sampling)
        counts.append(engine.take_statistics())
    assert counts[0].accepted_by_position == counts[1].accepted_by_position
    assert counts[0].drafted_by_position == counts[1].drafted_by_position


@pytest.mark.parametrize("vocabulary", [48, 5000])
@pytest.mark.parametrize("sampling", LAWS)
def test_a_guess_is_what_the_whole_law_would_bring_if_no_other_token_had_a_chance(sampling: Sampling, vocabulary: int) -> None:
    """So is the order of the branches: the noise is that of the target's tokens."""
    torch.manual_seed(0)
    ids = torch.randperm(vocabulary)[: vocabulary // 3].sort().values
    logits = 3 * torch.randn(40, vocabulary)
    sampler = TokenSampler(sampling, vocabulary, logits.device)
    noise = sampler.noise(torch.arange(40), torch.arange(120).view(40, 3))
    alone = torch.full_like(logits, -torch.inf).index_copy_(1, ids, logits[:, ids])
    some, whole = Guesses(sampler, noise, ids, 2), Guesses(sampler, noise, None, 2)
    for level in range(2):
        assert torch.equal(some.one(logits[:, ids], level), whole.one(alone, level))
        ours, theirs = some.many(logits[:, ids], level, 4), whole.many(alone, level, 4)
        likely = theirs[1].isfinite()
        assert torch.equal(ours[0][likely], theirs[0][likely])
        torch.testing.assert_close(ours[1][likely], theirs[1][likely], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
@pytest.mark.parametrize("graphs", [False, True])
def test_a_drafter_with_another_vocabulary_may_come_later(kind: DrafterKind, graphs: bool) -> None:
    """Also of the same size, and after the target has changed; with graphs, which have the weights in them."""
    target = make_target(tie_word_embeddings=False)
    weights = make_guessable(target) if kind == "eagle" else random_drafter(target, kind=kind)
    shapes = SpeculationConfig.model_validate(strategies(*SHAPES).model_dump() | {"tuner": {"name": "goodput"}})
    engine = make_engine(target, weights, shapes, recorder=Rerun() if graphs else None, drafter_kind=kind)
    with_random_tuner(engine, RandomTuner(0, more=TREES))
    requests, drafts = make_requests(6, 48, group=3), watch_drafts(engine)
    for version, ids in enumerate((None, HALF, HALF + 1, FEW, None, FEW), 1):
        drafts.clear()
        changed = {name: weight * (1 + version / 100) for name, weight in target.state_dict().items()}
        engine.load_target(changed, version)
        engine.load_drafter(drafting(weights, ids), version)
        sampling = Sampling(max_new_tokens=15, seed=version)
        plain = make_engine(target)
        plain.load_target(changed, version)
        assert [one.tokens for one in engine.generate(requests, sampling)] == [one.tokens for one in plain.generate(requests, sampling)]
        assert set(drafts) <= set((ALL if ids is None else ids).tolist())
        runner = engine._runner
        assert runner.drafter
        if ids is not None:
            assert runner.drafter._head
            assert torch.equal(runner.drafter._head.weight, changed["lm_head.weight"][ids])
            one = torch.eye(64)
            torch.testing.assert_close(runner.drafter._head(one).T, changed["lm_head.weight"][ids])


def test_checksums_tell_vocabularies_apart() -> None:
    _, weights, engine = make_drafting(HALF)
    before = engine.loaded_weights()
    engine.load_drafter(drafting(weights, HALF + 1), 1)
    assert engine.loaded_weights().drafter != before.drafter
    assert engine.loaded_weights().target == before.target


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([0, 1, 2]), "top_k of 4 exceeds the drafter's vocabulary of 3 tokens"),
        (torch.tensor([0, 1, 2, 48]), "goes from 0 to 48, and the target has 48 tokens"),
        (torch.tensor([0, 2, 1, 5]), "must rise"),
    ],
)
def test_vocabularies_that_do_not_fit_change_nothing(ids: Tensor, message: str) -> None:
    _, weights, engine = make_drafting(torch.tensor([4, 5, 6, 7]))
    before = engine.loaded_weights()
    with pytest.raises(ModelError, match=message):
        engine.load_drafter(drafting({name: weight + 1 for name, weight in weights.items()}, ids), 1)
    assert engine.loaded_weights() == before


def test_costs_are_measured_for_each_size_of_vocabulary(tmp_path: Path) -> None:
    target = make_target(hidden=16, layers=1, tie_word_embeddings=False)
    weights = random_drafter(target)
    shapes = SpeculationConfig.model_validate(chains(3).model_dump() | {"tuner": {"name": "goodput"}})
    for count, ids in enumerate((None, FEW, HALF), 1):
        for _ in range(2):
            engine_from_model(target, frozenset(), shapes, drafting(weights, ids), rollout=RolloutConfig(max_batch=1), costs=tmp_path)
            assert len(list(tmp_path.iterdir())) == count


def test_the_tuner_goes_by_the_costs_of_a_drafter_that_came_later(tmp_path: Path) -> None:
    """As one does that was pretrained, and then drafts from few tokens."""
    target = make_target(hidden=16, layers=1, tie_word_embeddings=False)
    weights = random_drafter(target)
    shapes = SpeculationConfig.model_validate(chains(3).model_dump() | {"tuner": {"name": "goodput"}})
    engine = engine_from_model(target, frozenset(), shapes, weights, rollout=RolloutConfig(max_batch=1), costs=tmp_path)
    assert engine.speculator
    tuner = engine.speculator.tuner
    assert isinstance(tuner, GoodputTuner)
    known = [tuner.predicted]
    for ids in (None, FEW, FEW - 1, None):
        engine.load_drafter(drafting(weights, ids), len(known))
        engine.measure_costs()
        known.append(tuner.predicted)
    assert len(list(tmp_path.iterdir())) == 2
    assert known[0] == known[1] != known[2] == known[3] != known[4], "measured anew for another size only"
    assert len(engine.generate(make_requests(2, 48), SHORT)) == 2
    dropped = ref(engine)
    del engine
    assert dropped() is None, "nothing keeps the memory of an engine that is not needed any more"
