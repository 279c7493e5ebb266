"""A drafter that drafts from some of the target's tokens: trained, averaged, kept and read again."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2ForCausalLM

from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import first_drafter, make_drafter
from engine.drafter.export import load_drafter_folder, write_drafter_folder
from engine.drafter.kind import DrafterKind
from engine.drafter.local_sgd import merge
from engine.drafter.model_card import DrafterCard
from engine.drafter.offline_training import PromptAndResponse, hidden_states
from engine.drafter.recipe import RECIPES
from engine.drafter.spot_trainer import SpotTrainer
from engine.drafter.vocabulary import same_type, vocabulary_of
from engine.errors import ModelError
from engine.models import onednn_linear
from engine.models.enlarge import enlarge_drafter

SOME = torch.tensor([0, 3, 4, 9, 17, 20, 21, 33, 40, 41, 45, 47])
ALL = torch.arange(48)
CARD = DrafterCard("tiny", "countdown", 0)
KINDS: tuple[DrafterKind, ...] = ("eagle", "eagle3")


def common(responses: list[PromptAndResponse], count: int) -> Tensor:
    """The ``count`` most frequent tokens, rising."""
    tokens = torch.tensor([token for _, response in responses for token in response])
    return tokens.bincount(minlength=48).topk(count).indices.sort().values


def make_trainer(
    target: Qwen2ForCausalLM, responses: list[PromptAndResponse], vocabulary: Tensor | None, name: str = "eagle"
) -> SpotTrainer:
    torch.manual_seed(1)
    recipe, buffer = RECIPES[name], DataBuffer(2**24)
    for prompt, response in responses:
        buffer.add(0, [*prompt, *response], len(prompt), hidden_states(target, [[*prompt, *response]], recipe.kind)[0][:-1])
    config = SpotConfig(learning_rate=3e-3, tokens_per_microbatch=256, passes=100)
    trainer = SpotTrainer(first_drafter(recipe.kind, target, vocabulary), buffer, config, recipe)
    trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    return trainer


def after(microsteps: int) -> Callable[[], bool]:
    calls = iter(range(1, microsteps + 1))
    return lambda: next(calls) == microsteps


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_has_the_offsets_of_its_tokens(target: Qwen2ForCausalLM, kind: DrafterKind) -> None:
    drafter = make_drafter(kind, target.config, SOME)
    d2t = drafter.state_dict()["d2t"]
    assert [place + offset for place, offset in enumerate(d2t.tolist())] == SOME.tolist()
    assert torch.equal(vocabulary_of(drafter.state_dict()), SOME)  # type: ignore[arg-type]
    assert all(weight.requires_grad for weight in drafter.parameters())
    assert "d2t" not in dict(drafter.named_parameters())
    assert "d2t" not in make_drafter(kind, target.config).state_dict()


@pytest.mark.parametrize("ids", [[3, 2], [1, 1], [-1, 4], [4, 48], []])
def test_what_is_no_vocabulary_is_refused(target: Qwen2ForCausalLM, ids: list[int]) -> None:
    with pytest.raises(ModelError, match="d2t"):
        make_drafter("eagle", target.config, torch.tensor(ids, dtype=torch.int64))


@pytest.mark.parametrize("name", ["eagle", "eagle3"])
def test_training_raises_what_is_accepted_of_the_whole_law(target: Qwen2ForCausalLM, responses: list[PromptAndResponse], name: str) -> None:
    trainer = make_trainer(target, responses, common(responses, 24), name)
    report = trainer.train(after(60))
    assert report.gain > 0.03
    missed = 1 - report.after.top3
    assert missed > 0.02, "the target's best token is now and then one that is never drafted"


@pytest.mark.parametrize("name", ["eagle", "eagle3"])
def test_fewer_tokens_are_less_to_compute(
    target: Qwen2ForCausalLM, responses: list[PromptAndResponse], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each token as much as any other."""
    monkeypatch.setattr(onednn_linear, "mkl_is_slow", lambda: False)  # oneDNN's products are not counted
    counted = {}
    for vocabulary in (ALL, SOME, SOME[: len(SOME) // 2]):
        trainer = make_trainer(target, responses, vocabulary, name)
        with FlopCounterMode(display=False) as counter:
            trainer.train(after(1))
        counted[len(vocabulary)] = counter.get_total_flops()
    few, some, most = sorted(counted)
    assert (counted[most] - counted[some]) / (most - some) == (counted[some] - counted[few]) / (some - few) > 0


def test_all_tokens_as_a_vocabulary_train_as_none_do(target: Qwen2ForCausalLM, responses: list[PromptAndResponse]) -> None:
    trainers = [make_trainer(target, responses, vocabulary) for vocabulary in (None, ALL)]
    reports = [trainer.train(after(6)) for trainer in trainers]
    assert reports[0] == reports[1]
    plain, whole = (trainer.weights() for trainer in trainers)
    assert all(torch.equal(weight, whole[name]) for name, weight in plain.items())


def test_another_vocabulary_is_taken_over_with_the_weights(target: Qwen2ForCausalLM, responses: list[PromptAndResponse]) -> None:
    """By a trainer that had another one, as large or not, or none; and a resumed one."""
    wanted = make_trainer(target, responses, SOME)
    expected = wanted.evaluate()
    for vocabulary in (None, SOME[:5], SOME - torch.arange(12).eq(3).long()):
        other = make_trainer(target, responses, vocabulary)
        assert other.evaluate() != expected
        other.reset(wanted.weights())
        assert other.evaluate() == expected
        file = io.BytesIO()
        torch.save(make_trainer(target, responses, vocabulary).state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        assert (other.drafter.vocabulary is None) == (vocabulary is None)
        assert vocabulary is None or torch.equal(other.drafter.vocabulary, vocabulary)  # type: ignore[arg-type]


def test_an_average_keeps_the_vocabulary(target: Qwen2ForCausalLM) -> None:
    one, two = (make_drafter("eagle3", target.config, SOME).state_dict() for _ in range(2))
    merged = merge([(one, 1), (two, 2)])
    assert merged["d2t"].dtype == torch.int64
    assert torch.equal(merged["d2t"], one["d2t"])
    torch.testing.assert_close(merged["fc.weight"], (one["fc.weight"] + 2 * two["fc.weight"]) / 3)
    two["d2t"] = two["d2t"] + 1
    with pytest.raises(ValueError, match="differ in d2t"):
        merge([(one, 1), (two, 2)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_gives_back_the_vocabulary(tmp_path: Path, target: Qwen2ForCausalLM, kind: DrafterKind) -> None:
    weights = make_drafter(kind, target.config, SOME).state_dict()
    write_drafter_folder(tmp_path, same_type(weights, torch.bfloat16), target.config, CARD)
    loaded = load_drafter_folder(tmp_path, target.config, kind)
    assert loaded.keys() == weights.keys()
    assert torch.equal(loaded["d2t"], weights["d2t"])
    assert loaded["fc.weight"].dtype == torch.float32
    assert json.loads((tmp_path / "config.json").read_text())["draft_vocab_size"] == 12
    assert "| drafts from | 12 of 48 tokens |" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("d2t", "message"),
    [
        (torch.zeros(4), "must be int64"),
        (torch.tensor([0, 40, 60]), "goes from 0 to 62, and the target has 48 tokens"),
        (torch.tensor([5, -3]), "must rise"),
    ],
)
def test_a_folder_with_another_targets_vocabulary(tmp_path: Path, target: Qwen2ForCausalLM, d2t: Tensor, message: str) -> None:
    write_drafter_folder(tmp_path, make_drafter("eagle", target.config, SOME).state_dict(), target.config, CARD)
    file = tmp_path / "model.safetensors"
    save_file({**load_file(file), "d2t": d2t}, file)
    with pytest.raises(ModelError, match=message):
        load_drafter_folder(tmp_path, target.config)


def test_an_enlarged_drafter_has_the_same_vocabulary(tmp_path: Path, target: Qwen2ForCausalLM) -> None:
    weights = make_drafter("eagle", target.config, SOME).state_dict()
    write_drafter_folder(tmp_path / "drafter", weights, target.config, CARD)
    enlarge_drafter(tmp_path / "drafter", tmp_path / "wide", width=2)
    wide = load_file(tmp_path / "wide" / "model.safetensors")
    assert torch.equal(wide["d2t"], weights["d2t"])
    assert wide["fc.weight"].shape == (64, 128)
