"""Whatever the recipe, a pass of a training step computes what serving computes on the same state."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from native_cases import SHAPES, attentive_drafter, make_target
from torch import Tensor
from transformers import PreTrainedModel

from engine.drafter.data_buffer import Entry
from engine.drafter.layout import DrafterLayout
from engine.drafter.model import Drafter
from engine.drafter.packing import Segment, pack
from engine.drafter.recipe import RECIPES, Recipe
from engine.drafter.training_time_unroll import unrolled
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.drafting import Drafting
from engine.rollout.native.noise import Noise
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response
from engine.speculation.strategy import Strategy

LENGTH, VOCABULARY = 30, 48


class Server:
    """The rollout engine's drafting, fed with known tokens; keeps the features that the drafter computes."""

    def __init__(self, target: PreTrainedModel, drafter: Drafter, sequences: Tensor) -> None:
        self.sequences, self.drafted = sequences, [0] * len(sequences)
        self.runner = Runner(target.config, torch.empty(0), drafting=True, kind=drafter.kind)
        self.runner.load_target(target.state_dict())
        self.runner.load_drafter(drafter.state_dict())
        self.runner.reserve(len(sequences), LENGTH + 10)
        self.runner.prefill(range(len(sequences)), [tuple(row) for row in sequences.tolist()])
        self.features: list[Tensor] = []
        self.logits: list[Tensor] = []
        draft = self.runner.passes.draft

        def watched(*arguments: Tensor) -> tuple[Tensor, Tensor]:
            features, logits = draft(*arguments)  # type: ignore[arg-type]
            self.features.append(features.clone())
            self.logits.append(logits.clone())
            return features, logits

        self.runner.passes.draft = watched  # type: ignore[method-assign,assignment]

    def captured(self) -> list[Tensor]:
        """The target's features of every sequence, [LENGTH - 1, width]."""
        cache = self.runner.cache
        return list(cache.features[cache.index(cache.positions[: LENGTH - 1].expand(len(self.sequences), -1))])

    def draft(self, known: int, depth: int) -> Tensor:
        """The drafter's features [depth, n, hidden] in a step after ``known`` tokens whose drafts are the true ones."""
        batch = [Response(Request(slot, slot, tuple(row[:known]))) for slot, row in enumerate(self.sequences.tolist())]
        for response, drafted in zip(batch, self.drafted, strict=True):
            response.drafted = drafted
        newest = torch.full((len(batch), 1), known - 1)
        sampler = TokenSampler(Sampling(), VOCABULARY, newest.device)
        truth = sampler.noise(newest[:, 0], newest + torch.arange(depth))
        others = torch.full((len(batch), depth, VOCABULARY), torch.inf)
        truth.exponentials = others.scatter_(2, self.sequences[:, known : known + depth, None], 1.0).flatten(0, 1)
        of_tokens = truth.of_tokens

        def of_some(ids: Tensor, levels: int) -> Noise:
            some = of_tokens(ids, levels)
            some.exponentials = truth.exponentials[:, ids]
            return some

        truth.of_tokens = of_some  # type: ignore[method-assign]
        self.features.clear()
        self.logits.clear()
        Drafting(self.runner.passes, self.runner.cache, batch, newest).drafts(Strategy("eagle", depth, 1, depth), sampler, truth)
        self.drafted = [response.drafted for response in batch]
        return torch.stack(self.features)


def trained_passes(drafter: Drafter, target: PreTrainedModel, entries: list[Entry], recipe: Recipe) -> Iterator[Tensor]:
    """The features of each pass of one packed row, [entries, LENGTH - 2, hidden]."""
    batch = pack([Segment(entry, 0, entry.positions) for entry in entries])
    embedded = drafter.embed(batch.tokens, target.get_input_embeddings().weight)  # type: ignore[arg-type]
    for features in unrolled(drafter, embedded, batch, recipe.unroll, recipe.through):
        yield features[0].view(len(entries), LENGTH - 2, -1)


@torch.inference_mode()
@pytest.mark.parametrize("family", SHAPES)
@pytest.mark.parametrize("unroll", [None, 2, 8])
@pytest.mark.parametrize("name", RECIPES)
def test_a_training_pass_and_a_serving_step_give_the_same_features(name: str, unroll: int | None, family: str) -> None:
    """Three sequences in one row, and in one batch; drafts from many places, the drafter catching up from one to the next."""
    recipe = RECIPES[name] if unroll is None else Recipe(RECIPES[name].kind, unroll)
    target = make_target(family, layers=7)
    drafter = attentive_drafter(target, recipe.kind)
    sequences = torch.randint(VOCABULARY, (3, LENGTH), generator=torch.Generator().manual_seed(4))
    server = Server(target, drafter, sequences)
    entries = [Entry(i, i, 0, row, 2, features) for i, (row, features) in enumerate(zip(sequences, server.captured(), strict=True))]
    passes = list(trained_passes(drafter, target, entries, recipe))
    assert len(passes) == recipe.unroll
    for known in (2, 3, 4, 9, 11, 20):
        served = server.draft(known, recipe.unroll)
        for step, (ours, trained) in enumerate(zip(served, passes, strict=True)):
            torch.testing.assert_close(ours, trained[:, known - 2 + step], atol=1e-5, rtol=1e-5)
    for earlier, later in pairwise(passes):
        assert (earlier - later).abs().mean() > 0.05, "passes must differ, or the test would not notice a wrong one"


LAYOUTS = (
    DrafterLayout(bias=True, head=True, embedding=True),
    DrafterLayout(rope_theta=20),
    DrafterLayout("eagle3", 16, fc_norm=True, rope_theta=20),
    DrafterLayout("eagle3", 16, head=True, norm_output=True),
    DrafterLayout("eagle3", head=True, embedding=True, fc_norm=True, norm_output=True, norm_before_residual=True),
)


@torch.inference_mode()
@pytest.mark.parametrize("layout", LAYOUTS)
def test_drafters_of_others_are_served_as_they_are_trained(layout: DrafterLayout) -> None:
    """Whatever parts they have; with their logits."""
    target = make_target("llama", layers=7)
    vocabulary = torch.arange(0, VOCABULARY, 3) if layout.drafted else None
    drafter = attentive_drafter(target, layout.kind, vocabulary, layout)
    sequences = torch.randint(VOCABULARY, (3, LENGTH), generator=torch.Generator().manual_seed(4))
    if vocabulary is not None:
        sequences = sequences // 3 * 3  # true drafts are among those that it can draft
    server = Server(target, drafter, sequences)
    entries = [Entry(i, i, 0, row, 2, features) for i, (row, features) in enumerate(zip(sequences, server.captured(), strict=True))]
    passes = list(trained_passes(drafter, target, entries, Recipe(layout.kind, 4)))
    rows = target.lm_head.weight if vocabulary is None else target.lm_head.weight[vocabulary]
    head = drafter.head(rows)
    for known in (2, 5, 11):
        served = server.draft(known, 4)
        for step, (ours, trained) in enumerate(zip(served, passes, strict=True)):
            expected = trained[:, known - 2 + step]
            torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(server.logits[step], drafter.readout(expected) @ head.T, atol=1e-4, rtol=1e-4)
