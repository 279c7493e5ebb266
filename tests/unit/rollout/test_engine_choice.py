"""Which engine a run has that leaves it open, and why."""

import re
from pathlib import Path
from typing import Any

import pytest

from engine.config import RunConfig, parse
from engine.errors import ConfigError, ModelError
from engine.preflight import check_light
from engine.rollout.engine_choice import choose_engine
from engine.rollout.sglang import start_errors


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
    assert chosen.reason == "there are CUDA devices, and SGLang is installed"
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
