"""The spot trainer's way through CUDA, on a GPU that is emulated: its losses are the CPU's, and it waits once in a training step."""

import warnings
from random import Random
from typing import Any

import pytest
import torch
from sizes import first
from transformers import PreTrainedModel

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.faults import MixedDevicesError
from engine.bench.emulated_cuda.memory import CUDA
from engine.config import SpotConfig
from engine.drafter import spot_trainer
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import make_drafter
from engine.drafter.kind import feature_width
from engine.drafter.recipe import RECIPES
from engine.drafter.spot_trainer import SpotTrainer
from engine.drafter.window_past import past_of
from engine.models.packed_attention import Past
from engine.models.weights import ends

CPU = torch.device("cpu")
LENGTHS = (30, 70, 12)


def make(target: PreTrainedModel, recipe: str, device: torch.device) -> SpotTrainer:
    """With a draft vocabulary, and windows of 64 tokens that see 32 before them."""
    kind, config, draw = RECIPES[recipe].kind, target.config, Random(0)
    torch.manual_seed(1)
    drafter, buffer = make_drafter(kind, config, torch.arange(0, config.vocab_size, 2)).to(device), DataBuffer(2**24)
    for length in LENGTHS:
        tokens = [draw.randrange(config.vocab_size) for _ in range(length)]
        buffer.add(0, tokens, 4, torch.randn(length - 1, feature_width(kind, config.hidden_size)))
    trainer = SpotTrainer(drafter, buffer, SpotConfig(tokens_per_microbatch=64, context=32), RECIPES[recipe])
    trainer.set_target(*(end.detach().to(device) for end in ends(target)))
    return trainer


@pytest.fixture
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot_trainer, "native_data_type", lambda device, hidden: torch.float32)  # noqa: ARG005


@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize("recipe", first(1, ["hass", "eagle3", "eagle"]))
def test_a_pass_trains_as_on_the_cpu_and_waits_for_each_loss_alone(target: PreTrainedModel, recipe: str) -> None:
    other = make(target, recipe, CPU)
    expected = [other.micro_step(batch) for batch in other.one_pass()]
    with EmulatedCuda() as device:
        ours, losses = make(target, recipe, CUDA), []
        for batch in ours.one_pass():
            device.forget()
            losses.append(ours.micro_step(batch))
            assert device.syncs.total() == 1, device.syncs
        assert losses == pytest.approx(expected, rel=1e-4)
        assert ours.evaluate().accepted == pytest.approx(other.evaluate().accepted, rel=1e-3)
        weights = ours.weights()
    for name, weight in other.weights().items():
        torch.testing.assert_close(weights[name], weight, atol=1e-4, rtol=1e-3)


def test_on_a_gpu_it_computes_in_bfloat16(target: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot_trainer, "native_data_type", lambda device, hidden: torch.float32)  # noqa: ARG005
    exact = make(target, "eagle", CPU)
    expected = [exact.micro_step(batch) for batch in exact.one_pass()]
    monkeypatch.undo()
    with EmulatedCuda(), warnings.catch_warnings(action="error", category=UserWarning):
        ours = make(target, "eagle", CUDA)
        losses = [ours.micro_step(batch) for batch in ours.one_pass()]
    assert losses == pytest.approx(expected, rel=0.02)
    assert losses != pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("in_float32")
def test_a_past_that_stays_on_the_host_is_caught(target: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_host(*given: Any) -> Past | None:
        past = past_of(*given)
        return past and [each and (each[0].cpu(), each[1].cpu()) for each in past]

    monkeypatch.setattr(spot_trainer, "past_of", on_host)
    with EmulatedCuda():
        trainer = make(target, "hass", CUDA)
        with pytest.raises(MixedDevicesError):
            list(map(trainer.micro_step, trainer.one_pass()))
