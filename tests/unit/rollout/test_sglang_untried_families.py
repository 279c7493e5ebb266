"""What is asked of a model of a family that was not tried in SGLang."""

import os
from pathlib import Path
from typing import Any

import pytest
from models_for_tests import Family, make_random_model

from engine.config import RunConfig, parse
from engine.errors import ConfigError, ModelError
from engine.preflight import check, check_light
from engine.rollout.sglang import start_errors
from engine.rollout.sglang.arguments import environment
from engine.rollout.sglang.model_modules import module_of
from engine.rollout.sglang.untried_families import check_law, check_weights

PLAIN: dict[str, Any] = {"speculation": {"enabled": False}}
NGRAMS: dict[str, Any] = {
    "speculation": {"strategies": [{"drafter": "ngram", "depth": 2, "verify": 2}]},
    "drafter": {"spot": {"enabled": False}},
}
needs_sglang = pytest.mark.skipif(
    start_errors.missing() is not None, reason="SGLang is not installed: python3 infra/bootstrap.py test does it"
)


def config(model: Path, engine: str = "sglang", **changes: Any) -> RunConfig:
    return parse({"model": {"path": str(model)}, "drafter": {"path": None}, "rollout": {"engine": engine}} | changes)


@pytest.mark.parametrize("family", ["gpt2", "olmo2", "mistral"])
def test_it_decodes_plainly_or_with_ngrams_and_is_trained_in_one_piece(tmp_path: Path, family: Family) -> None:
    folder = make_random_model(tmp_path, family)
    check_light(config(folder, **PLAIN))
    check_light(config(folder, **NGRAMS))
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, rf"^speculation\.strategies: .* for llama, qwen2, qwen3 models, not for {family}"),
        (PLAIN | {"cluster": {"learner": {"parallel": "fsdp"}}}, rf"^cluster\.learner\.parallel: for llama, .* not for {family}"),
        (PLAIN | {"cluster": {"learner": {"packed": True}}}, r"^cluster\.learner\.packed: "),
        (PLAIN | {"cluster": {"learner": {"lora": {"rank": 4}}}}, r"^cluster\.learner\.lora: "),
    ]
    for changes, message in refused:
        with pytest.raises(ConfigError, match=message):
            check_light(config(folder, **changes))


def test_our_own_engine_refuses_it_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is a gpt2 model; supported are llama, mistral, .*rollout\.engine=sglang"):
        check_light(config(make_random_model(tmp_path, "gpt2"), "native", **PLAIN))


@needs_sglang
def test_one_that_sglang_does_not_know_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
    check(config(make_random_model(tmp_path / "known", "gpt2"), **PLAIN))
    with pytest.raises(ModelError, match=r"SGLang knows no gpt_neox models \(GPTNeoXForCausalLM\); use one of llama"):
        check(config(make_random_model(tmp_path / "unknown", "gpt_neox"), **PLAIN))


@needs_sglang
def test_sglang_imports_its_model_and_ours_alone() -> None:
    assert module_of("GPT2LMHeadModel") == "gpt2"
    assert module_of("Phi3ForCausalLM") == "llama"
    usual, more = (set(environment(each)["SGLANG_DISABLED_MODEL_ARCHS"].split(",")) for each in (None, "GPT2LMHeadModel"))
    assert usual - more == {"gpt2"}
    assert "llama" not in usual


def test_weights_that_sglang_does_not_use_are_refused() -> None:
    check_weights("gpt2", ["lm_head.weight"], [])
    for sent, forgotten, told in ((["a", "lm_head.bias"], [], "lm_head.bias"), (["a"], ["experts.w13"], "experts.w13")):
        with pytest.raises(ModelError, match=f"SGLang does not use {told} of a phi model"):
            check_weights("phi", sent, forgotten)


def test_another_law_than_that_of_training_is_refused() -> None:
    folder = Path(os.devnull)
    check_law(config(folder), "phi3", {})
    check_law(config(folder), "phi3", {"logprob_gap": 0.03})
    check_law(config(folder), "llama", {"logprob_gap": 0.5})
    check_law(config(folder, "native"), "phi3", {"logprob_gap": 0.5})
    with pytest.raises(ModelError, match=r"another law than training for this phi3 model \(logprob_gap 0\.50\)"):
        check_law(config(folder), "phi3", {"logprob_gap": 0.5})
