import json
import tracemalloc
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, PretrainedConfig, Qwen2Config

from engine.drafter.eagle3 import make_drafter
from engine.drafter.export import load_drafter_folder, write_drafter_folder
from engine.drafter.kind import DrafterKind, drafter_kind
from engine.drafter.model import Drafter
from engine.drafter.model_card import DrafterCard, base_model
from engine.drafter.zipped import write_zip
from engine.errors import ModelError

HISTORY = ("1: held-out 0.41", "3: held-out 0.55")
CARD = DrafterCard(base_model="tiny", task="countdown", version=3, accept_length=2.875, history=HISTORY, acceptance=(0.8, 0.625))


@pytest.fixture
def folder(tmp_path: Path, family: PretrainedConfig) -> Path:
    write_drafter_folder(tmp_path / "drafter", Drafter(family).state_dict(), family, CARD)
    return tmp_path / "drafter"


def test_round_trip(tmp_path: Path, family: PretrainedConfig) -> None:
    weights = Drafter(family).state_dict()
    write_drafter_folder(tmp_path / "drafter", weights, family, CARD)
    loaded = load_drafter_folder(tmp_path / "drafter", family)
    assert loaded.keys() == weights.keys()
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)


def test_folder_has_the_layout_that_sglang_reads(folder: Path, family: PretrainedConfig) -> None:
    config = AutoConfig.from_pretrained(folder)
    assert config.architectures[0].endswith("ForCausalLMEagle")
    assert (config.num_hidden_layers, config.hidden_size, config.model_type) == (1, family.hidden_size, family.model_type)
    written = json.loads((folder / "config.json").read_text())
    assert "_name_or_path" not in written
    assert (written["tie_word_embeddings"], written["target_ties_embeddings"]) == (False, family.tie_word_embeddings)
    tensors = load_file(folder / "model.safetensors")
    assert tensors["fc.bias"].tolist() == [0.0] * family.hidden_size
    assert not any("embed" in name or "head" in name for name in tensors)


def test_an_eagle3_folder_comes_back_and_has_the_layout_that_sglang_reads(tmp_path: Path, family: PretrainedConfig) -> None:
    weights = make_drafter("eagle3", family).state_dict()
    write_drafter_folder(tmp_path, weights, family, CARD)
    assert drafter_kind(tmp_path) == "eagle3"
    loaded = load_drafter_folder(tmp_path, family, "eagle3")
    assert loaded.keys() == weights.keys()
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["architectures"], config["model_type"], config["num_hidden_layers"]) == (["LlamaForCausalLMEagle3"], "llama", 1)
    assert config["draft_vocab_size"] is None
    hidden, heads, key_heads = 32, 4 * config["head_dim"], 2 * config["head_dim"]
    shapes = {name: tuple(tensor.shape) for name, tensor in load_file(tmp_path / "model.safetensors").items()}
    assert shapes == {
        "fc.weight": (hidden, 3 * hidden),
        "midlayer.self_attn.q_proj.weight": (heads, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": (key_heads, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": (key_heads, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": (hidden, heads),
        "midlayer.mlp.gate_proj.weight": (64, hidden),
        "midlayer.mlp.up_proj.weight": (64, hidden),
        "midlayer.mlp.down_proj.weight": (hidden, 64),
        **{f"midlayer.{name}.weight": (hidden,) for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")},
        "norm.weight": (hidden,),
    }
    assert "tags:\n- speculative-decoding\n- eagle3\n---" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(("written", "asked"), [("eagle", "eagle3"), ("eagle3", "eagle")])
def test_folder_of_another_kind(tmp_path: Path, family: PretrainedConfig, written: DrafterKind, asked: DrafterKind) -> None:
    write_drafter_folder(tmp_path, make_drafter(written, family).state_dict(), family, CARD)
    with pytest.raises(ModelError, match=f"an {written} drafter, but drafter.recipe is for {asked} drafters"):
        load_drafter_folder(tmp_path, family, asked)


def test_card_tells_where_the_drafter_comes_from(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert text.startswith("---\nbase_model: tiny\n")
    for fact in (
        "countdown",
        "| version | 3 |",
        "2.88 tokens",
        "- 3: held-out 0.55",
        "| measured in | the last rollouts of its run |",
        "| accepted at depth 1 | 80.0% |\n| accepted at depth 2 | 62.5% |\n",
        *(sha256((folder / name).read_bytes()).hexdigest() for name in ("model.safetensors", "config.json")),
    ):
        assert fact in text


@pytest.mark.parametrize("name", ["tiny", "/models/a: b", "/models/a #1", "7", "null", "/modèles/x" + "y" * 200, "O'Neil's"])
def test_the_card_names_any_base_model(tmp_path: Path, config: PretrainedConfig, name: str) -> None:
    write_drafter_folder(tmp_path, Drafter(config).state_dict(), config, replace(CARD, base_model=name))
    assert base_model(tmp_path) == name


@pytest.mark.parametrize("facts", ["", "date: 2026-13-45", "[" * 5000, "{", "base_model: 7", "\xff"])
def test_a_card_that_names_none_is_told(tmp_path: Path, facts: str) -> None:
    (tmp_path / "README.md").write_bytes(f"---\n{facts}\n---\ntext".encode("latin-1"))
    with pytest.raises(ModelError, match=r"no README\.md in it that names its base model"):
        base_model(tmp_path)


def test_missing_folder_or_file(tmp_path: Path, family: PretrainedConfig) -> None:
    with pytest.raises(ModelError, match="not a local folder"):
        load_drafter_folder(tmp_path / "organisation" / "drafter", family)
    with pytest.raises(ModelError, match=r"no model\.safetensors"):
        load_drafter_folder(tmp_path, family)


def test_unreadable_file(folder: Path, family: PretrainedConfig) -> None:
    (folder / "model.safetensors").write_bytes(b"not tensors at all")
    with pytest.raises(ModelError, match="not readable"):
        load_drafter_folder(folder, family)


def change(folder: Path, **tensors: Tensor | None) -> None:
    changed: dict[str, Tensor | None] = {**load_file(folder / "model.safetensors")}
    changed |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file({name: tensor for name, tensor in changed.items() if tensor is not None}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"fc__weight": torch.zeros(3, 3)}, r"fc\.weight is \[3, 3\], this target needs \[32, 64\]"),
        ({"fc__weight": None}, r"fc\.weight is missing"),
        ({"lm_head__weight": torch.zeros(2)}, r"lm_head\.weight is \[2\], this target needs \[48, 32\]"),
        ({"layers__0__input_layernorm__weight": torch.zeros(32)}, r"input_layernorm\.weight does not belong"),
    ],
)
def test_folder_that_does_not_fit(folder: Path, family: PretrainedConfig, tensors: dict[str, Tensor | None], message: str) -> None:
    change(folder, **tensors)
    with pytest.raises(ModelError, match=message):
        load_drafter_folder(folder, family)


def test_drafter_of_another_target(tmp_path: Path) -> None:
    config = Qwen2Config(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2)
    write_drafter_folder(tmp_path, Drafter(config).state_dict(), config, CARD)
    config.intermediate_size = 96
    with pytest.raises(ModelError, match=r"mlp\..*this target needs"):
        load_drafter_folder(tmp_path, config)


def test_zip_is_the_folder_and_always_the_same(folder: Path, tmp_path: Path) -> None:
    digest = write_zip(folder, tmp_path / "one.zip")
    (folder / "README.md").touch()
    assert write_zip(folder, tmp_path / "two.zip") == digest
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    zipfile.ZipFile(tmp_path / "one.zip").extractall(tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out" / "drafter").iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert (tmp_path / "out/drafter/model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_zip_takes_no_memory_for_what_is_in_it(tmp_path: Path) -> None:
    """A policy has many gigabytes."""
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "model.safetensors").write_bytes(bytes(range(256)) * 2**17)
    tracemalloc.start()
    try:
        digest = write_zip(tmp_path / "policy", tmp_path / "streamed.zip")
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    with zipfile.ZipFile(tmp_path / "whole.zip", "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("policy/model.safetensors", (1980, 1, 1, 0, 0, 0)), (tmp_path / "policy" / "model.safetensors").read_bytes()
        )
    assert (tmp_path / "streamed.zip").read_bytes() == (tmp_path / "whole.zip").read_bytes()
    assert digest == sha256((tmp_path / "whole.zip").read_bytes()).hexdigest()
