"""A training window sees what is before it, as serving does; it costs no gradients there."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import embedding
from transformers import PretrainedConfig, Qwen2ForCausalLM

from engine.config import SpotConfig
from engine.drafter import spot_trainer, window_past
from engine.drafter.data_buffer import DataBuffer, Entry
from engine.drafter.eagle3 import make_drafter
from engine.drafter.kind import DrafterKind, feature_width
from engine.drafter.model import Drafter
from engine.drafter.packing import MicroBatch, Segment, aligned, cut, pack
from engine.drafter.recipe import RECIPES, Recipe
from engine.drafter.spot_trainer import SpotTrainer
from engine.drafter.training_time_unroll import unrolled
from engine.drafter.window_past import past_of

PASSES, BOUND = 3, 16
VOCABULARY = torch.randn(48, 32, generator=torch.Generator().manual_seed(0))


def entry(length: int, kind: DrafterKind = "eagle", prompt: int = 1) -> Entry:
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(48, (length,), generator=generator)
    features = torch.randn(length - 1, feature_width(kind, 32), generator=generator).bfloat16()
    return Entry(length, length, 0, tokens, prompt, features)


def passes(drafter: Drafter, batch: MicroBatch) -> list[Tensor]:
    """Of each pass, the features [N, H]."""
    embedded, past = embedding(batch.tokens, VOCABULARY), past_of(drafter, VOCABULARY, batch)
    return [features[0] for features in unrolled(drafter, embedded, batch, PASSES, through=True, past=past)]


def whole(one: Entry) -> Segment:
    return Segment(one, 0, one.positions)


@torch.inference_mode()
def test_what_is_kept_of_a_long_response_is_trained_on_at_its_true_positions(family: PretrainedConfig) -> None:
    torch.manual_seed(0)
    drafter, long = make_drafter("eagle", family), entry(400, prompt=10)
    kept = long.windows(200 * (8 + 2 * 32))
    assert [(one.first, len(one.tokens), one.prompt) for one in kept] == [(0, 66, 10), (167, 66, 0), (334, 66, 0)]
    (expected,) = past_of(drafter, VOCABULARY, pack([Segment(long, 398, 398, 398)])) or ()
    for one in kept:
        batch, true = pack([Segment(one, 40, 64, 40)]), slice(one.first + 40, one.first + 64)
        assert batch.positions[0].tolist() == list(range(true.start, true.stop))
        assert torch.equal(batch.tokens[0], long.tokens[true.start + 1 : true.stop + 1])
        assert torch.equal(batch.targets[0], long.features[true.start + 1 : true.stop + 1])
        assert batch.trained.all()
        (past,) = past_of(drafter, VOCABULARY, batch) or ()
        for found, all_ in zip(past or (), expected or (), strict=True):
            torch.testing.assert_close(found, all_[:, :, one.first : one.first + 40])


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_windows_predict_what_their_responses_do(family: PretrainedConfig, kind: DrafterKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every pass, from the place on that drafts reach; the past comes in parts, and the rows of two responses are mixed."""
    monkeypatch.setattr(window_past, "AT_ONCE", 7)
    torch.manual_seed(0)
    drafter, entries = make_drafter(kind, family), [entry(45, kind), entry(23, kind)]
    first, second = (cut(one, BOUND, context=1000) for one in entries)
    assert [segment.past for segment in (*first, *second)] == [0, 16, 32, 0, 16]
    expected = [passes(drafter, pack([whole(one)])) for one in entries]
    for row in ([first[2], second[1], first[0]], [second[0], first[1]]):
        batch = pack(row)
        starts = [0, *torch.tensor(batch.lengths).cumsum(0).tolist()]
        for step, found in enumerate(passes(drafter, batch)):
            for segment, start in zip(row, starts, strict=False):
                true = expected[entries.index(segment.entry)][step][segment.start + step : segment.stop]
                torch.testing.assert_close(found[start + step : start + len(segment)], true, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_no_more_is_seen_than_the_context(family: PretrainedConfig) -> None:
    torch.manual_seed(0)
    drafter, one = Drafter(family), entry(66)
    window = cut(one, BOUND, context=20)[2]
    later = Segment(one, window.start - 20, window.stop)
    assert (window.start, window.past) == (32, 20)
    torch.testing.assert_close(passes(drafter, pack([window]))[0], passes(drafter, pack([later]))[0][20:], atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_alignment_leaves_the_past_where_it_is(family: PretrainedConfig) -> None:
    torch.manual_seed(0)
    drafter, batch = Drafter(family), pack([cut(entry(45), BOUND, 100)[2]])
    for filled, found in zip(passes(drafter, aligned(batch)), passes(drafter, batch), strict=True):
        torch.testing.assert_close(filled[: len(found)][PASSES:], found[PASSES:], atol=1e-5, rtol=1e-4)


@pytest.fixture
def judge(target: Qwen2ForCausalLM, monkeypatch: pytest.MonkeyPatch) -> SpotTrainer:
    """Cuts long responses into windows of ``BOUND``."""
    torch.manual_seed(1)
    monkeypatch.setattr(spot_trainer, "EVALUATED_TOKENS", BOUND)
    trainer = SpotTrainer(Drafter(target.config), DataBuffer(2**20), SpotConfig(tokens_per_microbatch=BOUND), Recipe())
    trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    return trainer


def test_windows_are_judged_as_the_whole_response(judge: SpotTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    one = entry(70)
    windows = judge.evaluate([one])
    assert windows.positions == one.positions
    monkeypatch.setattr(spot_trainer, "EVALUATED_TOKENS", 1024)
    alone = judge.evaluate([one])
    assert (windows.agreement, windows.top3) == (alone.agreement, alone.top3)
    assert windows.acceptance == pytest.approx(alone.acceptance, rel=1e-5)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_windows_are_trained_as_the_whole_response(
    target: Qwen2ForCausalLM, kind: DrafterKind, half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their losses, by their lengths, make up its loss; in bfloat16, too."""
    torch.manual_seed(1)
    if half:
        monkeypatch.setattr(spot_trainer, "native_data_type", lambda _, __: torch.bfloat16)
    drafter = make_drafter(kind, target.config)
    trainer = SpotTrainer(drafter, DataBuffer(2**20), SpotConfig(tokens_per_microbatch=BOUND), replace(RECIPES[kind], unroll=1))
    trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    trainer.learning_rate, one = 0.0, entry(70, kind)
    losses = [trainer.micro_step(pack([segment])) * len(segment) for segment in trainer._segments(one)]
    assert len(losses) == 5
    assert sum(losses) / one.positions == pytest.approx(trainer.micro_step(pack([whole(one)])), rel=1e-3 if half else 1e-4)
    assert trainer.micro_step(pack([trainer._segments(one)[2]]), unroll=3) > 0


def gradients(trainer: SpotTrainer, segments: Sequence[Segment], after_the_past: bool) -> dict[str, Tensor]:
    batch = pack(segments)
    trainer.drafter.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        if after_the_past:
            past_of(trainer.drafter, VOCABULARY, batch)
        embedded = embedding(batch.tokens, VOCABULARY)
        trainer.drafter(embedded, batch.features.float(), batch.positions, batch.lengths).float().square().sum().backward()
    return {name: weight.grad.clone() for name, weight in trainer.drafter.named_parameters() if weight.grad is not None}


def test_the_past_takes_no_gradients_from_weights_that_autocast_keeps(judge: SpotTrainer) -> None:
    window = judge._segments(entry(70))[2:3]
    expected, found = (gradients(judge, window, first) for first in (False, True))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
