"""A drafter as a folder that others can use: config.json, safetensors and a model card; ours, or of a format that serving engines read."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PretrainedConfig

from engine.checkpoint.verification import sha256_of
from engine.drafter.eagle3 import make_drafter
from engine.drafter.kind import EAGLE3, OWN_EAGLE3, DrafterKind, weights_kind
from engine.drafter.layout import BIAS, EMBEDDING, HEAD, IN_CONFIG, DrafterLayout
from engine.drafter.model_card import README, DrafterCard, text
from engine.drafter.published import check_config, in_our_terms
from engine.drafter.serving_formats import ARCHITECTURES, COPIED, ServingFormat, aux_layers, plain_config, serving_config, serving_tensors
from engine.drafter.vocabulary import same_type, vocabulary_of
from engine.drafter.weight_files import read_tensors
from engine.errors import ModelError
from engine.models.folder import read_config

TOKEN_MAP = "token_map.pt"


def write_drafter_folder(folder: Path, weights: Mapping[str, Tensor], target: PretrainedConfig, card: DrafterCard) -> None:
    """Writes config.json, model.safetensors and README.md. ``weights`` as in ``Drafter.state_dict``, of any layout.

    SGLang reads it, too, unless the drafter has a draft vocabulary and no head of its own (see ``write_serving_folder``) or is an EAGLE
    drafter of a qwen3, for which it has no class. Its EAGLE layer has a bias in ``fc``, which is left random unless the file sets it: it is
    written as zeros.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items() if name not in IN_CONFIG}
    if weights_kind(weights) == "eagle" and BIAS not in weights:
        tensors[BIAS] = torch.zeros(len(weights["fc.weight"]), dtype=weights["fc.weight"].dtype)
    _write(folder, tensors, _config(DrafterLayout.of(weights), target), target, card)


def write_serving_folder(
    folder: Path, weights: Mapping[str, Tensor], target: PretrainedConfig, head: Tensor, card: DrafterCard, form: ServingFormat
) -> None:
    """The same in the format of a serving engine; ``head`` [V, H] is the target's. ModelError if the format has no such drafters.

    No engine finds the draft vocabulary of an EAGLE drafter in its file: SGLang wants it in one of its own, ``TOKEN_MAP``, which it is
    to be given as --speculative-token-map."""
    tensors = serving_tensors(weights, target, head, form)
    _write(folder, tensors, serving_config(weights, target, card.base_model, form), target, card)
    ids = vocabulary_of(weights)
    if ids is not None and weights_kind(weights) == "eagle":
        torch.save(ids.tolist(), folder / TOKEN_MAP)


def load_drafter_folder(folder: Path, target: PretrainedConfig, kind: DrafterKind = "eagle") -> dict[str, Tensor]:
    """The tensors in float32, of a folder of ours or of a published one (see ``published.py``). ModelError if ``folder`` is not a local
    folder of a drafter of ``kind`` that fits ``target``."""
    weights, config = read_tensors(folder), read_config(folder)
    try:
        weights = in_our_terms(without_copied(weights, config), config, target)
        if (found := weights_kind(weights)) != kind:
            raise ModelError(f"an {found} drafter, but drafter.recipe is for {kind} drafters; change the one or the other")
        _check(weights, target, kind)
        check_config(config, kind, target)
    except ModelError as error:
        raise ModelError(f"drafter {folder}: {error}") from None
    return same_type(weights, torch.float32)


def without_copied(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Without the target's tensors in a file of ours."""
    copied = config.get(COPIED) or ()
    return {name: tensor for name, tensor in weights.items() if name not in copied}


def _check(weights: Mapping[str, Tensor], target: PretrainedConfig, kind: DrafterKind) -> None:
    with torch.device("meta"):
        expected = make_drafter(kind, target, vocabulary_of(weights), DrafterLayout.of(weights)).state_dict()
    if missing := sorted(expected.keys() - weights.keys()):
        raise ModelError(f"tensor {missing[0]} is missing")
    if unknown := sorted(weights.keys() - expected.keys()):
        raise ModelError(f"tensor {unknown[0]} does not belong to a {target.model_type} drafter")
    for name, tensor in expected.items():
        if tensor.shape != weights[name].shape:
            raise ModelError(f"{name} is {list(weights[name].shape)}, this target needs {list(tensor.shape)}")


def _write(folder: Path, tensors: Mapping[str, Tensor], config: str, target: PretrainedConfig, card: DrafterCard) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.safetensors"
    save_file(dict(tensors), file, metadata={"format": "pt"})
    (folder / "config.json").write_text(config, encoding="utf-8")
    shutil.copymode(folder / "config.json", file)  # safetensors lets nobody else read it
    digests = {path.name: sha256_of(path) for path in (file, folder / "config.json")}
    drafted = len(tensors["d2t"]) if "d2t" in tensors else target.vocab_size
    vocabulary = None if drafted == target.vocab_size else (drafted, target.vocab_size)
    more = [part for part, name in (("embedding", EMBEDDING), ("LM head", HEAD)) if name in tensors]
    (folder / README).write_text(text(weights_kind(tensors), card, digests, vocabulary, more), encoding="utf-8")


def _config(layout: DrafterLayout, target: PretrainedConfig) -> str:
    config = plain_config(layout, target)
    config |= {"dtype": "float32", "target_ties_embeddings": target.tie_word_embeddings}  # the latter is for ``enlarge_drafter``
    config["tie_word_embeddings"] = False  # SGLang cannot put the target's embedding and head in the place of tied ones
    config |= dict.fromkeys(layout.flags, True)
    if layout.drafted is not None:
        config["draft_vocab_size"] = layout.drafted
    if layout.kind == "eagle":
        return _text(config | {"architectures": [ARCHITECTURES[config["model_type"]]]})
    # SGLang asks for this of EAGLE-3: null if the head is the target's, and the layers whose outputs are read.
    rows = layout.drafted or (target.vocab_size if layout.head else None)
    served = (layout.head or layout.drafted is None) and not layout.norm_before_residual
    config |= {"draft_vocab_size": rows, "eagle_config": aux_layers(target), "fc_norm": layout.fc_norm}
    return _text(config | {"architectures": [EAGLE3 if served else OWN_EAGLE3]})


def _text(config: Mapping[str, Any]) -> str:
    return json.dumps(config, indent=2, sort_keys=True) + "\n"
