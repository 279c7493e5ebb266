"""Drafters of others: read, and trained on, in each form in which they are published."""

import copy
import json
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from layout_cases import LAYOUTS, equal, random_weights
from safetensors.torch import load_file, save_file
from test_draft_vocabulary import SOME, after, make_trainer
from torch import Tensor
from transformers import PretrainedConfig, Qwen2ForCausalLM

from engine.drafter.eagle3 import drafter_of, make_drafter
from engine.drafter.export import load_drafter_folder
from engine.drafter.kind import DrafterKind, drafter_kind
from engine.drafter.layout import DrafterLayout, without_copies
from engine.drafter.local_sgd import merge
from engine.drafter.offline_training import PromptAndResponse
from engine.drafter.recipe import RECIPES
from engine.drafter.spot_trainer import SpotTrainer
from engine.errors import ModelError

HIDDEN, VOCABULARY = 32, 48
ROPE = {"rope_theta": 10000.0, "rope_scaling": None}
FLAT = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 64,
    **ROPE,
}


def eagle3_tensors(layer: str = "midlayer", drafted: int = 12) -> dict[str, Tensor]:
    """As SpecForge and SGLang have them."""
    torch.manual_seed(0)
    shapes = {
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        f"{layer}.self_attn.q_proj.weight": (HIDDEN, 2 * HIDDEN),
        f"{layer}.self_attn.k_proj.weight": (16, 2 * HIDDEN),
        f"{layer}.self_attn.v_proj.weight": (16, 2 * HIDDEN),
        f"{layer}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        f"{layer}.mlp.gate_proj.weight": (64, HIDDEN),
        f"{layer}.mlp.up_proj.weight": (64, HIDDEN),
        f"{layer}.mlp.down_proj.weight": (HIDDEN, 64),
        f"{layer}.input_layernorm.weight": (HIDDEN,),
        f"{layer}.hidden_norm.weight": (HIDDEN,),
        f"{layer}.post_attention_layernorm.weight": (HIDDEN,),
        "norm.weight": (HIDDEN,),
        "lm_head.weight": (drafted, HIDDEN),
    }
    ids = SOME if drafted == 12 else torch.arange(drafted)
    mask = torch.zeros(VOCABULARY, dtype=torch.bool)
    mask[ids] = True
    return {name: torch.randn(shape) for name, shape in shapes.items()} | {"d2t": ids - torch.arange(drafted), "t2d": mask}


def specforge(folder: Path, **changes: Any) -> Path:
    save(
        folder,
        eagle3_tensors(),
        FLAT | {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": 12} | changes,
    )
    return folder


def speculators(folder: Path, **changes: Any) -> Path:
    tensors = eagle3_tensors("layers.0") | {"embed_tokens.weight": torch.randn(VOCABULARY, HIDDEN)}
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.5.0",
        "draft_vocab_size": 12,
        "norm_before_residual": True,
        "norm_before_fc": False,
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "transformer_layer_config": FLAT | {"model_type": "llama"},
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "somebody/target"}},
    }
    save(folder, tensors, config | changes)
    return folder


def save(folder: Path, tensors: dict[str, Tensor], config: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def change(folder: Path, **tensors: Tensor | None) -> None:
    changed: dict[str, Tensor | None] = {**load_file(folder / "model.safetensors")}
    changed |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file({name: tensor for name, tensor in changed.items() if tensor is not None}, folder / "model.safetensors")


def test_what_specforge_writes_is_read(tmp_path: Path, config: PretrainedConfig) -> None:
    weights = load_drafter_folder(specforge(tmp_path), config, "eagle3")
    assert DrafterLayout.of(weights) == DrafterLayout("eagle3", 12, head=True)
    theirs = eagle3_tensors()
    assert all(torch.equal(weights[name], tensor) for name, tensor in theirs.items() if name != "t2d")


def test_what_speculators_writes_is_read(tmp_path: Path, config: PretrainedConfig) -> None:
    assert drafter_kind(speculators(tmp_path)) == "eagle3"
    weights = load_drafter_folder(tmp_path, config, "eagle3")
    assert DrafterLayout.of(weights) == DrafterLayout("eagle3", 12, head=True, embedding=True, norm_before_residual=True)
    assert torch.equal(weights["midlayer.mlp.up_proj.weight"], eagle3_tensors()["midlayer.mlp.up_proj.weight"])


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.pth", "index"])
def test_pickled_tensors_and_parts_of_a_file_are_read(tmp_path: Path, config: PretrainedConfig, file: str) -> None:
    """As in the repositories of EAGLE itself, whose configurations name the target's architecture."""
    tensors = {"fc.bias": torch.randn(HIDDEN), "embed_tokens.weight": torch.randn(VOCABULARY, HIDDEN)}
    tensors |= make_drafter("eagle", config).state_dict()
    (tmp_path / "config.json").write_text(json.dumps(FLAT | {"architectures": ["LlamaForCausalLM"], "bias": True}))
    if file == "index":
        parts = dict(list(tensors.items())[:3]), dict(list(tensors.items())[3:])
        for number, part in enumerate(parts):
            torch.save(part, tmp_path / f"part-{number}.bin")
        names = {name: f"part-{number}.bin" for number, part in enumerate(parts) for name in part}
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": names}))
    else:
        torch.save(tensors, tmp_path / file)
    assert drafter_kind(tmp_path) == "eagle"
    assert equal(load_drafter_folder(tmp_path, config), tensors)


class Evil:
    """A pickle that runs code."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self._file,))


def test_a_pickle_of_anything_else_is_refused(tmp_path: Path, config: PretrainedConfig) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FLAT))
    for content, message in (
        ({"a": Evil(tmp_path / "evil")}, "more than plain tensors"),
        ([1], "not a dict of tensors"),
        ({"a": 1}, "not a dict of tensors"),
    ):
        torch.save(content, tmp_path / "pytorch_model.bin")
        with pytest.raises(ModelError, match=message):
            load_drafter_folder(tmp_path, config)
    assert not (tmp_path / "evil").exists()
    for damaged in (b"nothing of the kind", b"", b"\x80\x02.", b"\x80\x02}q\x00h\x07.", b"\x80\x02X\xff\xff"):
        (tmp_path / "pytorch_model.bin").write_bytes(damaged)
        with pytest.raises(ModelError, match="is damaged"):
            load_drafter_folder(tmp_path, config)


def test_a_pickle_that_is_cut_off_is_damaged(tmp_path: Path, config: PretrainedConfig) -> None:
    """Wherever it ends: a copy that broke off is the commonest damage, and the zip's directory is at the end."""
    file = tmp_path / "pytorch_model.bin"
    (tmp_path / "config.json").write_text(json.dumps(FLAT))
    torch.save(eagle3_tensors(), file)
    whole = file.read_bytes()
    for share in (0.1, 0.5, 0.9):
        file.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ModelError, match="is damaged"):
            load_drafter_folder(tmp_path, config, "eagle3")


class Shell:
    """A pickle that runs a command."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (os.system, ("true",))


def test_no_one_is_told_to_run_a_pickle(tmp_path: Path, config: PretrainedConfig) -> None:
    """torch says so in the first line of its errors."""
    file = tmp_path / "pytorch_model.bin"
    (tmp_path / "config.json").write_text(json.dumps(FLAT))
    for evil in (Evil(tmp_path / "evil"), Shell()):
        torch.save({"a": evil}, file)
        for content in (file.read_bytes(), pickle.dumps({"a": evil})):
            file.write_bytes(content)
            with pytest.raises(ModelError, match=r"is damaged \(.*[Uu]nsupported .*\); save it with safetensors$") as raised:
                load_drafter_folder(tmp_path, config)
            assert [word for word in ("weights_only", "\n") if word in str(raised.value)] == []


@pytest.mark.parametrize(
    "other",
    [
        torch.eye(HIDDEN).to_sparse(),
        torch.empty(HIDDEN, device="meta"),
        torch.zeros(1).expand(10**6, 10**6),
        torch.zeros(1, dtype=torch.int64).expand(10**12),
    ],
    ids=["sparse", "meta", "repeated", "whole numbers"],
)
@pytest.mark.parametrize("name", ["fc.weight", "d2t"])
def test_tensors_without_numbers_of_their_own_are_refused(tmp_path: Path, config: PretrainedConfig, name: str, other: Tensor) -> None:
    """A small pickle must not fill the memory."""
    (tmp_path / "config.json").write_text(json.dumps(FLAT))
    torch.save(eagle3_tensors() | {name: other}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=f"{name} is no plain tensor"):
        load_drafter_folder(tmp_path, config, "eagle3")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"fc__weight": torch.zeros(HIDDEN, 6 * HIDDEN)}, r"fc\.weight is \[32, 192\], this target needs \[32, 96\]"),
        ({"t2d": torch.ones(50, dtype=torch.bool)}, r"t2d is \[50\], and the target has 48 tokens"),
        ({"t2d": torch.ones(48, dtype=torch.bool)}, "t2d has other tokens than d2t"),
        ({"d2t": None}, "there is t2d, but no d2t"),
        ({"rope_theta": torch.tensor([1e4, 2.0])}, "tensor rope_theta does not belong to a drafter: config.json says that"),
        ({"d2t": torch.full((12,), 40), "t2d": None}, "goes from 40 to 51, and the target has 48 tokens"),
        ({"lm_head__weight": torch.zeros(13, HIDDEN)}, r"lm_head\.weight is \[13, 32\], this target needs \[12, 32\]"),
        ({"layers__1__mlp__up_proj__weight": torch.zeros(64, HIDDEN)}, "of several layers is not supported"),
        ({"midlayer__self_attn__q_norm__weight": torch.zeros(8)}, r"q_norm\.weight does not belong"),
        ({"norm__weight": torch.full((HIDDEN,), torch.nan)}, r"norm\.weight has values that are not finite"),
        ({"norm__weight": torch.full((HIDDEN,), 1e300, dtype=torch.float64)}, r"norm\.weight has values that are not finite in float32"),
        ({"d2t": torch.tensor(3), "t2d": None}, r"d2t must be int64 numbers \[D\], but it is torch\.int64 \[\]"),
        ({"d2t": torch.zeros(12), "t2d": None}, r"d2t must be int64 numbers \[D\], but it is torch\.float32 \[12\]"),
        ({"d2t": torch.arange(0, -12, -1), "t2d": None}, "must rise, each only once"),
        ({"d2t": torch.zeros(0, dtype=torch.int64), "t2d": None}, r"must be int64 numbers \[D\], but it is torch\.int64 \[0\]"),
        ({"fc__weight": torch.zeros(HIDDEN, 96, dtype=torch.float8_e4m3fn)}, r"fc\.weight is torch\.float8_e4m3fn: quantised"),
        ({"fc__bias": torch.zeros(HIDDEN, dtype=torch.float8_e4m3fn)}, r"fc\.bias is torch\.float8_e4m3fn: quantised"),
        ({"fc__weight": torch.zeros(HIDDEN, 96, dtype=torch.int8)}, r"fc\.weight is torch\.int8: quantised"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, config: PretrainedConfig, tensors: dict[str, Tensor | None], message: str) -> None:
    change(specforge(tmp_path), **tensors)
    with pytest.raises(ModelError, match=message):
        load_drafter_folder(tmp_path, config, "eagle3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 50}, "made for a target with 50 tokens, and this one has 48"),
        ({"vocab_size": str(VOCABULARY)}, "vocab_size must be a whole number, but it is '48'"),
        ({"vocab_size": None}, "vocab_size must be a whole number, but it is None"),
        ({"norm_before_fc": True}, "norm_before_fc is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act=gelu is not supported"),
        ({"rope_theta": 0.5}, r"rope_theta is 0\.5, and must be a whole number above 1"),
        ({"rope_theta": "a"}, "rope_theta is a, and must be a whole number"),
        ({"rope_theta": 10**400}, "rope_theta is 1000000"),
        ({"rope_scaling": {"factor": 2.0}}, r"factor is 2\.0, and the target's is None"),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor is 0\.5, and the target's is 1\.0"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 7.0}}}, "full_attention is .*, and the target's is None"),
        ({"num_attention_heads": 8}, "num_attention_heads is 8, and the target's is 4; use a drafter that was made for this target"),
        ({"num_key_value_heads": 1}, "num_key_value_heads is 1, and the target's is 2"),
        ({"head_dim": 16}, "head_dim is 16, and the target's is 8"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type is linear, and the target's is default"),
        ({"rms_norm_eps": 1e-5}, "rms_norm_eps is 1e-05, and the target's is 1e-06"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}}, r"inputs of the target's layers \[1, 2, 3\]"),
        ({"quantization_config": {"bits": 4}}, "has a quantization_config"),
        ({"speculators_model_type": "dflash"}, "a drafter of type dflash"),
        ({"transformer_layer_config": {"rope_scaling": "linear"}}, "rope_scaling must be a JSON object, but it is 'linear'"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": ["a"]}}, r"must be a list of numbers, but it is \['a'\]"),
        ({"eagle_aux_hidden_state_layer_ids": 2}, "must be a list of numbers, but it is 2"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": 0}}, "must be a list of numbers, but it is 0"),
        ({"transformer_layer_config": 0}, "transformer_layer_config must be a JSON object, but it is 0"),
        ({"copied_from_target": 5}, "must be a list of names, but it is 5"),
        ({"rms_norm_eps": "1e-6"}, "rms_norm_eps is 1e-6, and the target's is 1e-06"),
    ],
)
def test_configurations_that_do_not_fit(tmp_path: Path, config: PretrainedConfig, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_drafter_folder(specforge(tmp_path, **changes), config, "eagle3")


@pytest.mark.parametrize(
    ("target_rope", "stated", "base"),
    [
        ({"rope_type": "default", "rope_theta": 500_000.0}, {}, 10_000),
        ({"rope_type": "default", "rope_theta": 10_000.0}, {}, None),
        ({"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0}, {"rope_scaling": None}, 10_000),
        ({"rope_type": "default", "rope_theta": 10_000.0}, {"rope_theta": 1e6}, 1_000_000),
        ({"rope_type": "default", "rope_theta": 1e6}, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, None),
    ],
)
@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_a_drafter_has_the_rotary_base_that_its_configuration_says_or_is_silent_about(
    tmp_path: Path, config: PretrainedConfig, kind: DrafterKind, target_rope: dict[str, Any], stated: dict[str, Any], base: int | None
) -> None:
    """EAGLE's own configurations are silent: its code has base 10,000 then, unscaled, whatever the target has."""
    config = copy.deepcopy(config)
    config.rope_parameters = target_rope
    silent = {name: value for name, value in FLAT.items() if name not in ROPE}
    tensors = eagle3_tensors() if kind == "eagle3" else make_drafter("eagle", config).state_dict()
    save(tmp_path, tensors, silent | stated)
    weights = load_drafter_folder(tmp_path, config, kind)
    assert DrafterLayout.of(weights).rope_theta == base
    rotary: Any = drafter_of(weights, config).rotary
    angles = torch.tensor(float(base or target_rope["rope_theta"])) ** -(torch.arange(0, 8, 2) / 8)
    torch.testing.assert_close(rotary.inv_freq, angles)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_can_be_trained_on(target: Qwen2ForCausalLM, responses: list[PromptAndResponse], name: str) -> None:
    layout = LAYOUTS[name]
    weights = random_weights(layout, target.config)
    made = make_trainer(target, responses[:60], None, layout.kind)
    trainer = SpotTrainer(drafter_of(weights, target.config), made.buffer, made.config, RECIPES[layout.kind])
    trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    report = trainer.train(after(12))
    assert report.gain > 0
    trained = trainer.weights()
    assert DrafterLayout.of(trained) == layout
    frozen = {"embed_tokens.weight", "d2t", "norm_output", "norm_before_residual", "rope_theta"}
    assert {part for part in trained if torch.equal(trained[part], weights[part])} == frozen & weights.keys()
    assert equal(merge([(trained, 1), (trained, 2), (trained, 4)]), trained)


def test_copies_of_the_target_are_no_own_parts(target: Qwen2ForCausalLM) -> None:
    embedding, head = target.model.embed_tokens.weight.detach(), target.lm_head.weight.detach()
    weights = random_weights(LAYOUTS["eagle3 of some tokens, with its ends"], target.config)
    assert equal(without_copies(weights, embedding, head), weights)
    copies = weights | {"embed_tokens.weight": embedding.bfloat16().float(), "lm_head.weight": head[SOME].clone()}
    assert DrafterLayout.of(without_copies(copies, embedding, head)) == DrafterLayout("eagle3", 12)
