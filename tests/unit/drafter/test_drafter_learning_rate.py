from pathlib import Path

import pytest
import torch
from models_for_tests import make_random_model
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config

from engine.config import SpotConfig
from engine.config.drafter import BASE_WIDTH
from engine.drafter import learning_rate
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import drafter_of
from engine.drafter.export import load_drafter_folder, write_drafter_folder
from engine.drafter.learning_rate import width_share
from engine.drafter.model import Drafter
from engine.drafter.model_card import DrafterCard
from engine.drafter.offline_training import PromptAndResponse, remember
from engine.drafter.packing import cut, pack
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.enlarge import enlarge, enlarge_drafter
from engine.models.load import load_model
from engine.models.weights import ends

WIDTH = 4


@pytest.mark.parametrize(("hidden_size", "share"), [(32, 1.0), (160, 1.0), (BASE_WIDTH, 1.0), (2 * BASE_WIDTH, 0.5), (4096, 576 / 4096)])
def test_beyond_the_base_width_the_rate_falls_with_the_width(hidden_size: int, share: float) -> None:
    assert width_share(hidden_size) == share


def test_a_wide_drafters_optimizer_has_its_share_of_what_is_configured() -> None:
    width = 2 * BASE_WIDTH
    target = Qwen2Config(vocab_size=8, hidden_size=width, intermediate_size=8, num_attention_heads=4, num_key_value_heads=1)
    trainer = SpotTrainer(drafter_of(Drafter(target).state_dict(), target), DataBuffer(2**20), SpotConfig(learning_rate=3e-4))
    (optimizer,) = trainer.state_dict()["optimizers"]
    assert optimizer["param_groups"][0]["lr"] == pytest.approx(1.5e-4)
    assert trainer.learning_rate == pytest.approx(3e-4)
    trainer.learning_rate = 1e-2
    for _ in range(20):
        trainer.slow_down()
    (optimizer,) = trainer.state_dict()["optimizers"]
    assert optimizer["param_groups"][0]["lr"] == pytest.approx(1.5e-4), "however slow, it keeps its share"
    saved = trainer.state_dict()
    trainer.load_state_dict(saved)
    assert trainer.learning_rate == pytest.approx(3e-4)
    del saved["width_share"]
    trainer.load_state_dict(saved)
    assert trainer.learning_rate == pytest.approx(1.5e-4), "a checkpoint of an earlier version has what was configured"


def test_a_step_changes_what_a_drafter_predicts_by_as_much_whatever_its_width(
    responses: list[PromptAndResponse], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = load_model(make_random_model(tmp_path / "narrow"), torch.float32)
    monkeypatch.setattr(learning_rate, "BASE_WIDTH", target.config.hidden_size)
    enlarge(tmp_path / "narrow", tmp_path / "wide", WIDTH, target.config.num_hidden_layers, own_head=True)
    torch.manual_seed(0)
    write_drafter_folder(tmp_path / "drafter", Drafter(target.config).state_dict(), target.config, DrafterCard("narrow", "countdown", 0))
    enlarge_drafter(tmp_path / "drafter", tmp_path / "wide-drafter", WIDTH, own_head=True)
    narrow = _change(target, tmp_path / "drafter", responses[:8])
    wide = _change(load_model(tmp_path / "wide", torch.float32), tmp_path / "wide-drafter", responses[:8])
    assert wide == pytest.approx(narrow, rel=0.2)


def _change(target: PreTrainedModel, drafter: Path, responses: list[PromptAndResponse]) -> float:
    """Root mean square of what a micro-step changes in the drafter's logits."""
    buffer = DataBuffer(2**24)
    remember(buffer, 0, target, responses)
    trainer = SpotTrainer(drafter_of(load_drafter_folder(drafter, target.config), target.config), buffer, SpotConfig())
    trainer.set_target(*ends(target))
    batch = pack([segment for entry in buffer.mix() for segment in cut(entry, 1024, 0)])

    def logits() -> Tensor:
        with torch.no_grad():
            features, _ = next(trainer._predict(batch, 1))
            return features @ ends(target)[1].T

    before = logits()
    trainer.micro_step(batch)
    return float((logits() - before).square().mean().sqrt())
