"""Drafter folders of ours, and those for serving engines: what they hold, and that they come back to the bit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from layout_cases import LAYOUTS, equal, random_weights
from models_for_tests import make_random_model
from safetensors.torch import load_file
from test_draft_vocabulary import SOME
from transformers import AutoConfig, LlamaConfig, PretrainedConfig, Qwen2ForCausalLM

from engine.drafter.__main__ import main
from engine.drafter.export import load_drafter_folder, write_drafter_folder, write_serving_folder
from engine.drafter.kind import DrafterKind, drafter_kind
from engine.drafter.layout import DrafterLayout
from engine.drafter.model_card import DrafterCard
from engine.drafter.serving_formats import ServingFormat
from engine.errors import ModelError
from engine.models.load import load_model
from engine.models.weights import ends
from engine.rollout.sglang.supported_drafters import check, follows

VOCABULARY = 48
CARD = DrafterCard("somebody/target", "countdown", 0)
SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
FAMILIES: dict[str, dict[str, Any]] = {
    "gemma3_text": {"head_dim": 8, "layer_types": ["sliding_attention", "full_attention", "full_attention"]},
    "phi3": {
        "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
        "original_max_position_embeddings": 256,
        "pad_token_id": None,
    },
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_of_ours_keeps_every_layout(tmp_path: Path, config: PretrainedConfig, name: str) -> None:
    weights = random_weights(LAYOUTS[name], config)
    assert DrafterLayout.of(weights) == LAYOUTS[name]
    write_drafter_folder(tmp_path, weights, config, CARD)
    assert equal(load_drafter_folder(tmp_path, config, drafter_kind(tmp_path)), weights)
    served = "LongtailForCausalLMEagle3" not in json.loads((tmp_path / "config.json").read_text())["architectures"]
    assert served == (name not in ("eagle3 of some tokens", "normed residual")), "what an engine would draft wrongly with is refused by it"


@pytest.mark.parametrize("form", ["sglang", "vllm"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_what_serving_engines_read_comes_back_to_the_bit(tmp_path: Path, target: Qwen2ForCausalLM, name: str, form: ServingFormat) -> None:
    layout, weights = LAYOUTS[name], random_weights(LAYOUTS[name], target.config)

    def write() -> None:
        write_serving_folder(tmp_path, weights, target.config, target.lm_head.weight, CARD, form)

    if (form == "vllm" and layout.kind == "eagle") or (form == "sglang" and layout.norm_before_residual):
        with pytest.raises(ModelError, match=r"export this .*drafter with --format"):
            write()
        return
    write()
    assert drafter_kind(tmp_path) == layout.kind
    assert equal(load_drafter_folder(tmp_path, target.config, layout.kind), weights)
    tensors = load_file(tmp_path / "model.safetensors")
    if layout.kind == "eagle3":
        ids = SOME if layout.drafted else torch.arange(VOCABULARY)
        assert torch.equal(tensors["d2t"] + torch.arange(len(ids)), ids)
        assert torch.equal(tensors["t2d"].nonzero()[:, 0], ids)
        assert layout.head or torch.equal(tensors["lm_head.weight"], target.lm_head.weight[ids])
        assert any(tensor.startswith("midlayer." if form == "sglang" else "layers.0.") for tensor in tensors)


def test_an_eagle_drafters_vocabulary_is_in_a_file_of_its_own(tmp_path: Path, target: Qwen2ForCausalLM) -> None:
    weights = random_weights(DrafterLayout(drafted=12), target.config)
    write_serving_folder(tmp_path, weights, target.config, target.lm_head.weight, CARD, "sglang")
    assert torch.load(tmp_path / "token_map.pt", weights_only=True) == SOME.tolist()
    assert equal(load_drafter_folder(tmp_path, target.config), weights)


def test_the_configuration_has_what_sglang_asks_for(tmp_path: Path, target: Qwen2ForCausalLM) -> None:
    weights = random_weights(LAYOUTS["eagle3.1"], target.config)
    write_serving_folder(tmp_path, weights, target.config, target.lm_head.weight, CARD, "sglang")
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["architectures"], config["model_type"], config["draft_vocab_size"]) == (["LlamaForCausalLMEagle3"], "llama", 12)
    assert config["max_position_embeddings"] == target.config.max_position_embeddings == 512
    assert (config["fc_norm"], config["norm_output"], config["tie_word_embeddings"]) == (True, True, False)
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 10000.0
    assert AutoConfig.from_pretrained(tmp_path).rope_parameters == target.config.rope_parameters


def test_the_configuration_says_what_vllm_asks_for(tmp_path: Path, target: Qwen2ForCausalLM) -> None:
    weights = random_weights(LAYOUTS["normed residual"], target.config)
    write_serving_folder(tmp_path, weights, target.config, target.lm_head.weight, CARD, "vllm")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["speculators_model_type"] == config["speculators_config"]["algorithm"] == "eagle3"
    (proposal,) = config["speculators_config"]["proposal_methods"]
    assert proposal["proposal_type"] == config["speculators_config"]["default_proposal_method"] == "greedy"
    assert proposal["speculative_tokens"] >= 1
    assert config["speculators_config"]["verifier"] == {"name_or_path": "somebody/target", "architectures": []}
    assert config["norm_before_residual"] is True
    layer = LlamaConfig(**config["transformer_layer_config"])
    assert (layer.num_hidden_layers, layer.vocab_size, layer.max_position_embeddings, layer.head_dim) == (1, VOCABULARY, 512, 8)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_a_drafter_need_not_have_the_rotary_positions_of_its_target(
    tmp_path: Path, config: PretrainedConfig, kind: DrafterKind, family: str
) -> None:
    config = AutoConfig.for_model(family, **{size: getattr(config, size) for size in SIZES} | FAMILIES[family])
    weights = random_weights(DrafterLayout(kind), config)
    write_drafter_folder(tmp_path, weights, config, CARD)
    assert equal(load_drafter_folder(tmp_path, config, kind), weights)


@pytest.mark.parametrize("form", ["sglang", "vllm"])
def test_the_command_line_exports_a_folder(
    tmp_path: Path, random_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    config = AutoConfig.from_pretrained(random_model)
    weights = random_weights(DrafterLayout("eagle3", 12), config)
    card = DrafterCard(str(random_model), "countdown", 3)
    write_drafter_folder(tmp_path / "drafter", weights, config, card)
    command = ["export", str(tmp_path / "drafter"), "--format", form, "--out", str(tmp_path / "out")]
    left = tmp_path / ".out.part"  # by one that was killed
    left.mkdir()
    (left / "token_map.pt").touch()
    assert main(command) == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert not left.exists()
    assert len({file.stat().st_mode for file in (tmp_path / "out").iterdir()}) == 1, "others may read all of it, or nothing"
    assert equal(load_drafter_folder(tmp_path / "out", config, "eagle3"), weights)
    head = ends(load_model(random_model, torch.float32))[1]
    assert torch.equal(load_file(tmp_path / "out" / "model.safetensors")["lm_head.weight"], head[SOME])
    assert f"base_model: {random_model}" in (tmp_path / "out" / "README.md").read_text()
    assert main(command) == 2
    assert "choose another folder for --out" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert main([*command[:-1], "."]) == 2
    assert "is the folder that you are in" in capsys.readouterr().err
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    assert main([*command[:-1], str(tmp_path / "link")]) == 2
    assert "link is a link or a mount point; choose a folder in it or beside it" in capsys.readouterr().err
    for place in (tmp_path / "drafter" / "README.md", tmp_path / "drafter" / "README.md" / "below"):
        assert main([*command[:-1], str(place)]) == 2
        assert f"--out: {place} cannot be written" in capsys.readouterr().err


def test_what_is_not_there_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path / "nothing"), "--format", "sglang", "--out", str(tmp_path / "out")]) == 2
    assert f"{tmp_path / 'nothing'}: there is no such folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_export_says_what_sglang_puts_in_place(tmp_path: Path, random_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = AutoConfig.from_pretrained(random_model)
    own, none = DrafterLayout("eagle3", embedding=True), DrafterLayout("eagle3")
    copied = {"embed_tokens.weight": ends(load_model(random_model, torch.float32))[0].bfloat16()}  # as most published drafters have it
    for name, layout, more in (("own", own, {}), ("copied", own, copied), ("none", none, {})):
        weights = random_weights(layout, config) | more
        write_drafter_folder(tmp_path / name, weights, config, DrafterCard(str(random_model), "countdown", 3))
        assert main(["export", str(tmp_path / name), "--format", "sglang", "--out", str(tmp_path / f"{name} exported")]) == 0
        assert ("SGLang puts the model's in its place" in capsys.readouterr().out) == (name == "own")
        assert ("embed_tokens.weight" in load_file(tmp_path / f"{name} exported" / "model.safetensors")) == (name == "own")


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_copies_of_the_targets_tensors_are_left_out_of_an_export(tmp_path: Path, random_model: Path, kind: DrafterKind) -> None:
    """So that the drafter follows its target; and an EAGLE drafter with a copied head is not refused as one with a head of its own."""
    config = AutoConfig.from_pretrained(random_model)
    embedding, head = ends(load_model(random_model, torch.float32))
    weights, card = random_weights(DrafterLayout(kind), config), DrafterCard(str(random_model), "countdown", 3)
    copied = {"embed_tokens.weight": embedding.detach().clone(), "lm_head.weight": head.detach().clone()}
    write_drafter_folder(tmp_path / "drafter", weights | copied, config, card)
    assert main(["export", str(tmp_path / "drafter"), "--format", "sglang", "--out", str(tmp_path / "out")]) == 0
    assert equal(load_drafter_folder(tmp_path / "out", config, kind), weights)


@pytest.mark.parametrize("form", ["sglang", "vllm"])
@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_an_eagle_drafter_of_a_qwen3_is_for_runs_and_is_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: DrafterKind, form: str
) -> None:
    """SGLang has no class for it, so that it could not start with what was exported."""
    model, folder, out = make_random_model(tmp_path / "model", "qwen3"), tmp_path / "drafter", tmp_path / "out"
    config, refused = AutoConfig.from_pretrained(model), kind == "eagle"
    weights = random_weights(DrafterLayout(kind), config)
    write_drafter_folder(folder, weights, config, DrafterCard(str(model), "countdown", 3))
    assert equal(load_drafter_folder(folder, config, kind), weights)
    assert main(["export", str(folder), "--format", form, "--out", str(out)]) == (2 if refused else 0)
    assert ("train one with longtail drafter train --recipe eagle3" in capsys.readouterr().err) == refused
    assert (out / "model.safetensors").exists() != refused
    assert out.exists() != refused


@pytest.mark.parametrize("there", ["", "exports", "exports/vllm"])
def test_a_refused_export_leaves_no_folder_of_its_own(tmp_path: Path, random_model: Path, there: str) -> None:
    config, before = AutoConfig.from_pretrained(random_model), tmp_path / there
    before.mkdir(parents=True, exist_ok=True)
    write_drafter_folder(
        tmp_path / "drafter", random_weights(DrafterLayout(), config), config, DrafterCard(str(random_model), "countdown", 3)
    )
    assert main(["export", str(tmp_path / "drafter"), "--format", "vllm", "--out", str(tmp_path / "exports" / "vllm")]) == 2
    assert before.is_dir()
    assert [path.name for path in before.iterdir() if path.name != "drafter"] == []


def test_what_sglang_would_ignore_is_refused(config: PretrainedConfig) -> None:
    for name, layout in LAYOUTS.items():
        weights = random_weights(layout, config)
        if layout.embedding or layout.norm_before_residual:
            with pytest.raises(ModelError, match="SGLang cannot draft with"):
                check(weights, 1)
        else:
            check(weights, 1)
        assert follows(weights) == (name == "eagle3 of some tokens")
    for layout, ranks in ((DrafterLayout(head=True), 1), (DrafterLayout(drafted=12), 2)):
        with pytest.raises(ModelError, match="SGLang cannot draft with an EAGLE drafter's"):
            check(random_weights(layout, config), ranks)
