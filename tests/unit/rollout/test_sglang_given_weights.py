"""Who gives SGLang its weights: all ranks at once, each to the GPU that it shares with SGLang, or the first one alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig

from engine.config import RolloutConfig, SGLangConfig
from engine.models.folder import TINY
from engine.rollout.sglang import engine as module
from engine.rollout.sglang.engine import SGLangEngine
from engine.rollout.sglang.host_process import HostLostError

BUCKETS = 3


class Host:
    """In place of SGLang: it is there until it is told to end, and has ended when it is asked next."""

    bucket = 0

    def __init__(self, *_: object) -> None:
        self.ends_with: str | None = None

    def ask(self, method: str, **_: object) -> None:
        if method == self.ends_with:
            raise HostLostError("it has ended")

    def plugin(self, command: str, **_: object) -> list[Any]:
        self.ask(command)
        return [{"target": "same", "drafter": ""}]

    def kill(self) -> None:
        self.ends_with = None


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who has given a target, to the end."""
    found: list[str] = []

    def on_device(*_: object) -> Iterator[Any]:
        for number in range(BUCKETS):
            yield None, number == BUCKETS - 1, []
        found.append("all")

    def through(*_: object) -> Iterator[Any]:
        yield None, True
        found.append("the first")

    for name, fake in {"HostProcess": Host, "on_device": on_device, "through": through}.items():
        monkeypatch.setattr(module, name, fake)
    return found


def make_engine(weights: Mapping[str, Tensor]) -> SGLangEngine:
    rollout = RolloutConfig(engine="sglang", sglang=SGLangConfig(tensor_parallel=2))
    usual: dict[str, Any] = {"rollout": rollout, "speculation": None, "end_tokens": frozenset(), "ranks": object()}
    return SGLangEngine(TINY, AutoConfig.from_pretrained(TINY), weights, device=torch.device("cuda"), **usual)


def test_an_sglang_that_has_died_has_its_weights_from_the_first_rank_alone(given: list[str]) -> None:
    engine = make_engine({})
    engine.load_target({}, 1)
    assert given == ["all", "all"]
    engine.host.ends_with = "loaded_weights"  # type: ignore[attr-defined]
    assert engine.loaded_weights().target_version == 1
    assert given == ["all", "all", "the first"]


@pytest.mark.parametrize("moment", ["loaded_weights", "load_target"])
def test_all_ranks_go_through_a_load_in_which_sglang_dies(given: list[str], moment: str) -> None:
    """They wait for each other at each bucket."""
    engine = make_engine({})
    engine.host.ends_with = moment  # type: ignore[attr-defined]
    engine.load_target({}, 1)
    assert given == {"loaded_weights": ["all", "all"], "load_target": ["all", "all", "the first"]}[moment]
