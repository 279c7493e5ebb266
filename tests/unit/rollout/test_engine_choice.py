"""Which engine a run has that leaves it open, and why."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import RunConfig, parse
from engine.drafter.eagle3 import make_drafter
from engine.drafter.export import write_drafter_folder
from engine.drafter.layout import EMBEDDING, HEAD, DrafterLayout
from engine.drafter.model_card import DrafterCard
from engine.errors import ConfigError, ModelError
from engine.models.load import load_config, load_ends
from engine.preflight import check_light
from engine.rollout.engine_choice import choose_engine
from engine.rollout.sglang import start_errors

CHOSEN = "there are CUDA devices, and SGLang is installed"


def config(model: Path, **changes: Any) -> RunConfig:
    return parse({"model": {"path": str(model)}, "rollout": {"max_prompt_tokens": 16, "max_new_tokens": 32}} | changes)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_errors, "missing", lambda: None)


@pytest.mark.usefixtures("installed")
def test_sglang_where_there_are_gpus_and_the_package(random_model: Path) -> None:
    assert config(random_model).rollout.engine == "auto"
    chosen = choose_engine(config(random_model), gpus=2)
    assert chosen.config.rollout.engine == "sglang"
    assert chosen.reason == CHOSEN
    check_light(chosen.config)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("changes", "gpus", "reason"),
    [
        ({}, 0, "this machine has no CUDA device"),
        ({"cluster": {"device": "cpu"}}, 2, "computes on CPUs"),
        ({"cluster": {"workers": 4}}, 2, "need 4 GPUs"),
        ({"rollout": {"max_prompt_tokens": 16, "min_p": 0.1}}, 2, r"rollout\.min_p=0\.1: SGLang ignores min_p"),
    ],
)
def test_else_native_and_it_says_why(random_model: Path, changes: dict[str, Any], gpus: int, reason: str) -> None:
    chosen = choose_engine(config(random_model, **changes), gpus)
    assert chosen.config.rollout.engine == "native"
    assert re.search(reason, chosen.reason)


SOME = torch.arange(0, 40, 2)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("layout", "copies", "each", "reason"),
    [
        (DrafterLayout(), False, 1, None),
        (DrafterLayout(head=True), False, 1, "an EAGLE drafter's own head"),
        (DrafterLayout(embedding=True), False, 1, "an embedding of its own"),
        (DrafterLayout(head=True, embedding=True), True, 1, None),
        (DrafterLayout(drafted=20), False, 1, None),
        (DrafterLayout(drafted=20), False, 2, "an EAGLE drafter's draft vocabulary on several GPUs"),
        (DrafterLayout("eagle3", 20, head=True), False, 2, None),
        (DrafterLayout("eagle3", head=True, norm_before_residual=True), False, 1, "norm_before_residual"),
    ],
)
def test_a_drafter_that_sglang_would_not_take_is_the_native_engines(
    random_model: Path, tmp_path: Path, layout: DrafterLayout, copies: bool, each: int, reason: str | None
) -> None:
    """All workers would else load the policy, only to be told. A copy of the target's embedding or head is none of a drafter's own."""
    target = load_config(random_model)
    weights = make_drafter(layout.kind, target, SOME if layout.drafted else None, layout).state_dict()
    if copies:
        weights |= dict(zip((EMBEDDING, HEAD), map(torch.clone, load_ends(random_model)), strict=True))
    write_drafter_folder(tmp_path, weights, target, DrafterCard("somebody/target", "countdown", 0))
    sglang = {"max_prompt_tokens": 16, "max_new_tokens": 32, "sglang": {"tensor_parallel": each}}
    drafter = {"path": str(tmp_path), "recipe": layout.kind}
    chosen = choose_engine(config(random_model, drafter=drafter, rollout=sglang), gpus=4)
    told = f"SGLang cannot draft with {reason}; set rollout.engine to native, or take another drafter"
    assert (chosen.config.rollout.engine, chosen.reason) == (("native", told) if reason else ("sglang", CHOSEN))
    without = config(random_model, drafter=drafter, rollout=sglang, speculation={"enabled": False})
    assert choose_engine(without, gpus=4).config.rollout.engine == "sglang"


@pytest.mark.usefixtures("installed")
def test_a_drafter_that_cannot_be_read_is_for_the_preflight_to_refuse(random_model: Path, tmp_path: Path) -> None:
    chosen = choose_engine(config(random_model, drafter={"path": str(tmp_path)}), gpus=1)
    assert chosen.config.rollout.engine == "native"
    with pytest.raises(ModelError, match=r"drafter\.path: .* is not a drafter folder"):
        check_light(chosen.config)


@pytest.mark.usefixtures("installed")
def test_a_model_that_says_nothing_of_itself_is_for_the_preflight_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    chosen = choose_engine(config(tmp_path), gpus=1)
    assert chosen.config.rollout.engine == "native"
    with pytest.raises(ModelError, match="unsupported architecture"):
        check_light(chosen.config)


def test_without_the_package_native(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_errors, "missing", lambda: ConfigError("sglang is not installed"))
    chosen = choose_engine(config(random_model), gpus=1)
    assert (chosen.config.rollout.engine, chosen.reason) == ("native", "sglang is not installed")


@pytest.mark.parametrize("engine", ["native", "sglang"])
def test_what_is_set_stays(random_model: Path, engine: str) -> None:
    wanted = config(random_model, rollout={"engine": engine})
    assert choose_engine(wanted, gpus=1).config is wanted
