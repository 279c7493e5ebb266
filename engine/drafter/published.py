"""Published drafters in our terms: EAGLE's and EAGLE-3's own layout, SpecForge's and SGLang's, and vLLM's speculators format.

They differ in the names of a few tensors and in where config.json says what no tensor tells. Read from:
github.com/SafeAILab/EAGLE, sgl-project/SpecForge, sgl-project/sglang and vllm-project/speculators.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.drafter.kind import DrafterKind, captured_layers, layer_config, weights_kind
from engine.drafter.layout import BIAS, FC_NORMS, FLAGS, IN_CONFIG, ROPE_THETA, DrafterLayout
from engine.drafter.model import drafter_config
from engine.drafter.vocabulary import D2T, check_vocabulary, token_ids
from engine.errors import ModelError

T2D = "t2d"
WHOLE_NUMBERS = (torch.int64, torch.int32)
"""That d2t is read from."""
OLD_NORMS = ("aux_norm_low", "aux_norm_mid", "aux_norm_high")
QUANTISED = ("quantization_config", "compression_config")
IGNORED = ("rotary_emb.inv_freq", "verifier_norm.weight", "verifier_lm_head.weight")
"""Ends of the names of tensors that follow from the target or the configuration."""
AS_THE_TARGET = ("num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps")
"""What must be equal, but has no tensor of its own."""
UNSAID_BASE, LARGEST_BASE = 10_000.0, 2**53
PLAIN = (ROPE_THETA, "rope_type")
"""All that unscaled rotary positions say."""
UNSAID = {"partial_rotary_factor": 1.0, "beta_fast": 32, "beta_slow": 1}
"""Of rotary positions, where a configuration is silent, as transformers take it."""
Config = Mapping[str, Any]


def in_our_terms(weights: Mapping[str, Tensor], config: Config, target: PretrainedConfig) -> dict[str, Tensor]:
    """Tensors with the names of ``Drafter.state_dict``, and ``config``'s flags among them. ModelError if that is not possible."""
    if kept := next((key for key in QUANTISED if config.get(key)), None):
        raise ModelError(f"config.json has a {kept}: quantised weights cannot be trained; use the drafter's float32 or bfloat16 weights")
    if (algorithm := config.get("speculators_model_type", "eagle3")) != "eagle3":
        raise ModelError(f"a drafter of type {algorithm} in the speculators format, of which only eagle3 is supported")
    if stray := next((name for name in weights if name in IN_CONFIG), None):
        raise ModelError(f"tensor {stray} does not belong to a drafter: config.json says that; use the drafter's own files")
    ours = _named({name: tensor for name, tensor in weights.items() if not name.endswith(IGNORED)})
    for name, tensor in ours.items():
        _check_values(name, tensor)
    if not ours.get(BIAS, torch.ones(1)).any():
        del ours[BIAS]
    _take_vocabulary(ours, target.vocab_size)
    flags = dict.fromkeys((flag for flag in FLAGS if config.get(flag)), 1)
    in_config = flags | _own_rope(layer_config(config), weights_kind(ours), target)
    return ours | {name: torch.tensor([number]) for name, number in in_config.items()}


def check_config(config: Config, kind: DrafterKind, target: PretrainedConfig) -> None:
    """ModelError if config.json says that the drafter is another model than its tensors can tell."""
    layer = layer_config(config)
    vocabulary = layer.get("vocab_size", target.vocab_size)
    if not isinstance(vocabulary, int):
        raise ModelError(f"vocab_size must be a whole number, but it is {vocabulary!r}"[:80])
    if vocabulary != target.vocab_size:
        raise ModelError(f"made for a target with {vocabulary} tokens, and this one has {target.vocab_size}; use that target")
    if config.get("norm_before_fc") or (config.get("eagle_config") or {}).get("norm_before_fc"):
        raise ModelError("norm_before_fc is not supported; use a drafter without it")
    if (activation := layer.get("hidden_act", "silu")) != "silu":
        raise ModelError(f"hidden_act={activation} is not supported, only silu")
    wanted = drafter_config(DrafterLayout(kind), target).to_dict()
    wanted["head_dim"] = wanted.get("head_dim") or wanted["hidden_size"] // wanted["num_attention_heads"]
    for name in AS_THE_TARGET:
        if (found := layer.get(name)) not in (None, wanted[name]):
            raise ModelError(f"{name} is {found}, and the target's is {wanted[name]}; use a drafter that was made for this target")
    read = _read_layers(config)
    if kind == "eagle3" and read is not None and tuple(read) != captured_layers("eagle3", target.num_hidden_layers):
        captured = list(captured_layers("eagle3", target.num_hidden_layers))
        raise ModelError(f"reads the inputs of the target's layers {list(read)}, and supported are {captured}")


def _named(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if later := next((name for name in weights if name.startswith("layers.") and not name.startswith("layers.0.")), None):
        raise ModelError(f"tensor {later}: a drafter of several layers is not supported, only of one")
    renamed = {f"{old}.weight": new for old, new in zip(OLD_NORMS, FC_NORMS, strict=True)}
    found = {renamed.get(name, name): tensor for name, tensor in weights.items()}
    if weights_kind(found) == "eagle3":
        found = {name.replace("layers.0.", "midlayer.", 1): tensor for name, tensor in found.items()}
    return found


def _take_vocabulary(weights: dict[str, Tensor], vocabulary: int) -> None:
    """Checks ``d2t`` and ``t2d``. The latter says nothing more, and neither a vocabulary of all tokens: they are left out."""
    mask = weights.pop(T2D, None)
    if mask is not None and mask.shape != (vocabulary,):
        raise ModelError(f"{T2D} is {list(mask.shape)}, and the target has {vocabulary} tokens; use the target that it was made for")
    if D2T not in weights:
        if mask is not None and not mask.bool().all():
            raise ModelError(f"there is {T2D}, but no {D2T}: the file is incomplete")
        return
    if weights[D2T].dtype not in WHOLE_NUMBERS or weights[D2T].dim() != 1:
        raise ModelError(f"{D2T} must be int64 numbers [D], but it is {weights[D2T].dtype} {list(weights[D2T].shape)}")
    ids = token_ids(weights[D2T])
    check_vocabulary(ids, vocabulary)
    if mask is not None and not torch.equal(mask.bool().nonzero()[:, 0], ids):
        raise ModelError(f"{T2D} has other tokens than {D2T}: the file is damaged")
    if len(ids) == vocabulary:
        del weights[D2T]


def _check_values(name: str, tensor: Tensor) -> None:
    if name in (D2T, T2D):
        return
    if not tensor.is_floating_point() or tensor.element_size() < 2:
        raise ModelError(f"{name} is {tensor.dtype}: quantised weights cannot be trained; use float32, bfloat16 or float16 ones")
    if not tensor.float().isfinite().all():
        raise ModelError(f"{name} has values that are not finite in float32; was it saved before it was trained?")


def _own_rope(layer: Config, kind: DrafterKind, target: PretrainedConfig) -> dict[str, int]:
    """The base of rotary positions other than the target's; nothing if they are the same. ModelError if they are no plain ones."""
    ours, theirs = _rope(drafter_config(DrafterLayout(kind), target).to_dict()), _rope(layer)
    different = {name for name in ours.keys() | theirs.keys() if _said(ours, name) != _said(theirs, name)}
    if not different:
        return {}
    unlike = (different & theirs.keys()).difference(PLAIN) if theirs["rope_type"] == "default" else different
    if unlike:
        name = "rope_type" if "rope_type" in unlike else min(unlike)
        remedy = "use a drafter with the target's rotary positions, or with unscaled ones"
        raise ModelError(f"{name} is {_said(theirs, name)}, and the target's is {_said(ours, name)}; {remedy}")
    theta = theirs[ROPE_THETA]
    if not isinstance(theta, int | float) or not 1 < theta < LARGEST_BASE or not float(theta).is_integer():
        told = f"{theta}"[:30]
        raise ModelError(f"{ROPE_THETA} is {told}, and must be a whole number above 1 and below 2^53; use a drafter made for this target")
    return {ROPE_THETA: int(theta)}


def _said(rope: Config, name: str) -> Any:
    return rope.get(name, UNSAID.get(name))


def _rope(config: Config) -> dict[str, Any]:
    """The rotary positions of a configuration as transformers 4 or 5 writes it, with what its silence means: EAGLE's own code, transformers
    and serving engines have base 10,000 then, whatever the target has."""
    scaling = config.get("rope_scaling") or {}
    rope = {name: config.get(name) for name in (ROPE_THETA, "partial_rotary_factor")} | scaling | (config.get("rope_parameters") or {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    known = {name: value for name, value in rope.items() if name != "type" and value is not None}
    return {ROPE_THETA: UNSAID_BASE} | known | {"rope_type": kind}


def _read_layers(config: Config) -> Sequence[int] | None:
    """Whose inputs are read: the speculators format counts so, SGLang counts the layers whose outputs are."""
    named = config.get("eagle_aux_hidden_state_layer_ids")
    if named is not None:
        return [int(layer) for layer in named]
    named = (config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    return None if named is None else [int(layer) + 1 for layer in named]
