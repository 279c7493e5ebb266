"""Drafters in the formats that serving engines read.

``sglang``: the flat layout of EAGLE and EAGLE-3, which SpecForge and EAGLE's own code read as well. ``vllm``: the speculators format, for
EAGLE-3. A file of EAGLE-3 has a head of its own, the target's rows if the drafter has none, with ``d2t`` and ``t2d``.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.drafter.kind import EAGLE3, captured_layers
from engine.drafter.layout import BIAS, HEAD, IN_CONFIG, DrafterLayout
from engine.drafter.model import drafter_config
from engine.drafter.published import T2D
from engine.drafter.vocabulary import D2T, offsets, vocabulary_of
from engine.errors import ModelError

ServingFormat = Literal["sglang", "vllm"]
ARCHITECTURES = {"llama": "LlamaForCausalLMEagle", "qwen2": "Qwen2ForCausalLMEagle", "qwen3": "Qwen3ForCausalLMEagle"}
"""Of an EAGLE drafter's folder, by the family of its layer. SGLang has those of llama and qwen2 only: qwen3's is for folders of ours."""
SPECULATORS_VERSION = "0.7.0"
"""Of the schema that is followed."""
DRAFTED = 3
"""Tokens that vLLM drafts at once unless it is told otherwise."""
COPIED = "copied_from_target"
"""In config.json: tensors that are the target's, so that a drafter read from the file follows its target again."""


def serving_tensors(weights: Mapping[str, Tensor], target: PretrainedConfig, head: Tensor, form: ServingFormat) -> dict[str, Tensor]:
    """What the file holds; ``head`` [V, H] is the target's. ModelError if the format cannot say what the drafter is."""
    layout = DrafterLayout.of(weights)
    _check(layout, form, target.model_type)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items() if name not in IN_CONFIG}
    dtype = tensors["fc.weight"].dtype
    if layout.kind == "eagle":
        return {BIAS: torch.zeros(len(tensors["fc.weight"]), dtype=dtype)} | tensors
    ids = vocabulary_of(tensors)
    ids = torch.arange(target.vocab_size) if ids is None else ids
    tensors.setdefault(HEAD, head.detach().cpu()[ids].to(dtype))
    tensors[D2T] = offsets(ids)
    tensors[T2D] = torch.zeros(target.vocab_size, dtype=torch.bool).index_fill_(0, ids, True)
    return {_speculators_name(name): tensor for name, tensor in tensors.items()} if form == "vllm" else tensors


def serving_config(weights: Mapping[str, Tensor], target: PretrainedConfig, base_model: str, form: ServingFormat) -> str:
    """config.json. Its ``max_position_embeddings`` is the target's: engines cut rotary positions there."""
    layout = DrafterLayout.of(weights)
    dtype = str(weights["fc.weight"].dtype).removeprefix("torch.")
    drafted = layout.drafted or target.vocab_size
    config = plain_config(layout, target) | {"dtype": dtype, "torch_dtype": dtype, "tie_word_embeddings": False}
    copied = [HEAD] if layout.kind == "eagle3" and not layout.head else []
    if form == "vllm":
        config = _speculators_config(layout, config, drafted, target, base_model)
    elif layout.kind == "eagle3":
        config |= {"architectures": [EAGLE3], "draft_vocab_size": drafted, "eagle_config": aux_layers(target)}
        config |= {"fc_norm": layout.fc_norm, "norm_output": layout.norm_output}
    else:
        config |= {"architectures": [ARCHITECTURES[config["model_type"]]], "bias": True, "draft_vocab_size": layout.drafted}
    return json.dumps(config | {COPIED: copied}, indent=2, sort_keys=True) + "\n"


def plain_config(layout: DrafterLayout, target: PretrainedConfig) -> dict[str, Any]:
    """Of the drafter's one layer, with the rotary positions in the words of transformers 4 and 5."""
    config = drafter_config(layout, target)
    config.name_or_path = ""
    plain: dict[str, Any] = json.loads(config.to_json_string())
    rope = plain.get("rope_parameters") or {}
    scaling = {name: value for name, value in rope.items() if name != "rope_theta"}
    plain["rope_theta"] = rope.get("rope_theta")
    plain["rope_scaling"] = None if scaling.get("rope_type", "default") == "default" else scaling
    return plain


def aux_layers(target: PretrainedConfig) -> dict[str, Any]:
    """SGLang's name for the layers whose outputs EAGLE-3 reads."""
    read = [layer - 1 for layer in captured_layers("eagle3", target.num_hidden_layers)]
    return {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": read}


def _check(layout: DrafterLayout, form: ServingFormat, family: str) -> None:
    if layout.kind == "eagle" and family == "qwen3":
        raise ModelError(
            "serving engines have no EAGLE drafter for qwen3 models, but EAGLE-3: train one with longtail drafter train --recipe eagle3"
        )
    if form == "vllm" and layout.kind == "eagle":
        raise ModelError("the speculators format has EAGLE-3 drafters only; export this EAGLE drafter with --format sglang")
    if layout.kind == "eagle" and layout.head:
        raise ModelError("serving engines give an EAGLE drafter the target's head, and this one has its own; train an EAGLE-3 drafter")
    if form == "sglang" and layout.norm_before_residual:
        raise ModelError("norm_before_residual is not known to SGLang; export this drafter with --format vllm")


def _speculators_name(name: str) -> str:
    return name.replace("midlayer.", "layers.0.", 1)


def _speculators_config(
    layout: DrafterLayout, layer: dict[str, Any], drafted: int, target: PretrainedConfig, base_model: str
) -> dict[str, Any]:
    proposal = {"proposal_type": "greedy", "speculative_tokens": DRAFTED, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    verifier = {"name_or_path": base_model, "architectures": list(target.architectures or ())}
    speculators = {"algorithm": "eagle3", "default_proposal_method": "greedy", "proposal_methods": [proposal], "verifier": verifier}
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": SPECULATORS_VERSION,
        "speculators_config": speculators,
        "transformer_layer_config": layer,
        "draft_vocab_size": drafted,
        "eagle_aux_hidden_state_layer_ids": list(captured_layers("eagle3", target.num_hidden_layers)),
        "embed_requires_grad": False,
        "fc_norm": layout.fc_norm,
        "norm_before_fc": False,
        "norm_before_residual": layout.norm_before_residual,
        "norm_output": layout.norm_output,
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "dtype": layer["dtype"],
        "torch_dtype": layer["dtype"],
    }
