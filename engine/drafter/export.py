"""A drafter as a folder that others can use: EAGLE or EAGLE-3 layout (as SGLang reads it), safetensors, and a model card."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PretrainedConfig

from engine.drafter.eagle3 import llama_layer_config, make_drafter
from engine.drafter.kind import EAGLE3, Kind, captured_layers, drafter_kind
from engine.drafter.model import layer_config
from engine.errors import ModelError

ARCHITECTURES = {"llama": "LlamaForCausalLMEagle", "qwen2": "Qwen2ForCausalLMEagle", "qwen3": "Qwen3ForCausalLMEagle"}
BIAS = "fc.bias"
READS = {"eagle": "EAGLE: last hidden state and next token in", "eagle3": "EAGLE-3: three layers' hidden states and next token in"}
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Card:
    """What the model card tells. ``history`` has one line per published version; ``accept_length`` counts the target's own token;
    ``acceptance[i]`` is the share of drafts at depth i + 1 that were accepted."""

    base_model: str
    task: str
    version: int
    accept_length: float | None = None
    history: tuple[str, ...] = ()
    acceptance: tuple[float, ...] = ()


def write_drafter_folder(folder: Path, weights: dict[str, Tensor], target: PretrainedConfig, card: Card) -> None:
    """Writes config.json, model.safetensors and README.md. ``weights`` as in ``Drafter.state_dict``, of either kind.

    SGLang's EAGLE layer has a bias in ``fc``, which is left random unless the file sets it: it is written as zeros. EAGLE-3's has none.
    """
    kind: Kind = "eagle3" if "norm.weight" in weights else "eagle"
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    if kind == "eagle":
        tensors[BIAS] = torch.zeros(len(weights["fc.weight"]), dtype=weights["fc.weight"].dtype)
    file = folder / "model.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    (folder / "config.json").write_text(_config(kind, target), encoding="utf-8")
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in (file, folder / "config.json")}
    (folder / "README.md").write_text(_readme(kind, card, digests), encoding="utf-8")


def load_drafter_folder(folder: Path, target: PretrainedConfig, kind: Kind = "eagle") -> dict[str, Tensor]:
    """The trainable tensors, float32. ModelError if ``folder`` is not a local folder of a drafter of ``kind`` that fits ``target``."""
    try:
        weights = load_file(drafter_file(folder))
    except SafetensorError as error:
        raise ModelError(f"drafter {folder}: model.safetensors is not readable: {error}") from None
    if weights.pop(BIAS, torch.zeros(1)).any():
        raise ModelError(f"drafter {folder}: its {BIAS} is not zero; only drafters without this bias are supported")
    if (found := drafter_kind(folder)) != kind:
        raise ModelError(f"drafter {folder}: an {found} drafter, but drafter.recipe is for {kind} drafters; change the one or the other")
    _check(folder, weights, target, kind)
    return {name: tensor.float() for name, tensor in weights.items()}


def drafter_file(folder: Path) -> Path:
    """The file of the weights in ``folder``; ModelError if ``folder`` is not a local folder that has one."""
    if not folder.is_dir():
        raise ModelError(f"drafter {folder}: not a local folder")
    file = folder / "model.safetensors"
    if not file.is_file():
        raise ModelError(f"drafter {folder}: no model.safetensors in it")
    return file


def _check(folder: Path, weights: dict[str, Tensor], target: PretrainedConfig, kind: Kind) -> None:
    with torch.device("meta"):
        expected = make_drafter(kind, target).state_dict()
    if missing := sorted(expected.keys() - weights.keys()):
        raise ModelError(f"drafter {folder}: tensor {missing[0]} is missing")
    if unknown := sorted(weights.keys() - expected.keys()):
        raise ModelError(f"drafter {folder}: tensor {unknown[0]} does not belong to a {target.model_type} drafter")
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise ModelError(f"drafter {folder}: {name} is {list(weights[name].shape)}, this target needs {list(tensor.shape)}")


def write_zip(folder: Path, path: Path) -> str:
    """Zips the files of ``folder``; equal files give equal bytes. Returns the zip's SHA-256."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(folder.iterdir()):
            archive.writestr(zipfile.ZipInfo(f"{folder.name}/{file.name}", EPOCH), file.read_bytes())
    return sha256(path.read_bytes()).hexdigest()


def _config(kind: Kind, target: PretrainedConfig) -> str:
    config = llama_layer_config(target) if kind == "eagle3" else layer_config(target)
    config.architectures = [EAGLE3 if kind == "eagle3" else ARCHITECTURES[target.model_type]]
    config.dtype = torch.float32
    config.name_or_path = ""
    config.target_ties_embeddings = target.tie_word_embeddings  # what ``enlarge_drafter`` needs to know
    config.tie_word_embeddings = False  # SGLang cannot put the target's embedding and head in the place of tied ones
    return config.to_json_string() if kind == "eagle" else _eagle3_config(config, target.num_hidden_layers)


def _eagle3_config(config: PretrainedConfig, layers: int) -> str:
    """With what SGLang asks for: no vocabulary of its own, and the layers whose outputs are read."""
    read = [layer - 1 for layer in captured_layers("eagle3", layers)]
    more = {"draft_vocab_size": None, "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": read}}
    return json.dumps(json.loads(config.to_json_string()) | more, indent=2, sort_keys=True) + "\n"


def _readme(kind: Kind, card: Card, digests: Mapping[str, str]) -> str:
    accept = "not measured" if card.accept_length is None else f"{card.accept_length:.2f} tokens"
    depths = "".join(f"| accepted at depth {depth} | {rate:.1%} |\n" for depth, rate in enumerate(card.acceptance, 1))
    checksums = "".join(f"| SHA-256 of {name} | `{digest}` |\n" for name, digest in digests.items())
    history = "".join(f"- {line}\n" for line in card.history) or "- no earlier version\n"
    return f"""---
base_model: {card.base_model}
library_name: transformers
tags: [speculative-decoding, {kind}]
---
# Drafter for {card.base_model}

One decoder layer that drafts tokens for `{card.base_model}` ({READS[kind]}, next hidden state out).
Embedding and LM head are the base model's own and are not in this folder.

| | |
|---|---|
| task | {card.task} |
| version | {card.version} |
| accept length (with the base model's own token) | {accept} |
{depths}{checksums}
`longtail drafter eval FOLDER` measures it anew.

## Versions
{history}"""
