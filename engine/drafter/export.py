"""A drafter as a folder that others can use: EAGLE or EAGLE-3 layout (as SGLang reads it), safetensors, and a model card."""

import json
import zipfile
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PretrainedConfig

from engine.drafter.eagle3 import make_drafter
from engine.drafter.kind import EAGLE3, DrafterKind, captured_layers, drafter_kind, weights_kind
from engine.drafter.layout import DrafterLayout
from engine.drafter.model import drafter_config
from engine.drafter.model_card import README, DrafterCard, text
from engine.drafter.vocabulary import same_type, vocabulary_of
from engine.errors import ModelError

ARCHITECTURES = {"llama": "LlamaForCausalLMEagle", "qwen2": "Qwen2ForCausalLMEagle", "qwen3": "Qwen3ForCausalLMEagle"}
BIAS = "fc.bias"
EPOCH = (1980, 1, 1, 0, 0, 0)


def write_drafter_folder(folder: Path, weights: dict[str, Tensor], target: PretrainedConfig, card: DrafterCard) -> None:
    """Writes config.json, model.safetensors and README.md. ``weights`` as in ``Drafter.state_dict``, of either kind.

    SGLang's EAGLE layer has a bias in ``fc``, which is left random unless the file sets it: it is written as zeros. EAGLE-3's has none.
    """
    kind = weights_kind(weights)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    if kind == "eagle":
        tensors[BIAS] = torch.zeros(len(weights["fc.weight"]), dtype=weights["fc.weight"].dtype)
    file = folder / "model.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    drafted = DrafterLayout.of(weights).drafted
    (folder / "config.json").write_text(_config(kind, target, drafted), encoding="utf-8")
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in (file, folder / "config.json")}
    vocabulary = None if drafted is None else (drafted, target.vocab_size)
    (folder / README).write_text(text(kind, card, digests, vocabulary), encoding="utf-8")


def load_drafter_folder(folder: Path, target: PretrainedConfig, kind: DrafterKind = "eagle") -> dict[str, Tensor]:
    """The tensors in float32. ModelError if ``folder`` is not a local folder of a drafter of ``kind`` that fits ``target``."""
    try:
        weights = load_file(drafter_file(folder))
    except SafetensorError as error:
        raise ModelError(f"drafter {folder}: model.safetensors is not readable: {error}") from None
    if weights.pop(BIAS, torch.zeros(1)).any():
        raise ModelError(f"drafter {folder}: its {BIAS} is not zero; only drafters without this bias are supported")
    if (found := drafter_kind(folder)) != kind:
        raise ModelError(f"drafter {folder}: an {found} drafter, but drafter.recipe is for {kind} drafters; change the one or the other")
    _check(folder, weights, target, kind)
    return same_type(weights, torch.float32)


def drafter_file(folder: Path) -> Path:
    """The file of the weights in ``folder``; ModelError if ``folder`` is not a local folder that has one."""
    if not folder.is_dir():
        raise ModelError(f"drafter {folder}: not a local folder")
    file = folder / "model.safetensors"
    if not file.is_file():
        raise ModelError(f"drafter {folder}: no model.safetensors in it")
    return file


def _check(folder: Path, weights: dict[str, Tensor], target: PretrainedConfig, kind: DrafterKind) -> None:
    vocabulary = vocabulary_of(weights)
    try:
        with torch.device("meta"):
            expected = make_drafter(kind, target, vocabulary).state_dict()
    except ModelError as error:
        raise ModelError(f"drafter {folder}: {error}") from None
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


def _config(kind: DrafterKind, target: PretrainedConfig, drafted: int | None) -> str:
    config = drafter_config(kind, target)
    config.architectures = [EAGLE3 if kind == "eagle3" else ARCHITECTURES[config.model_type]]
    config.dtype = torch.float32
    config.name_or_path = ""
    config.target_ties_embeddings = target.tie_word_embeddings  # what ``enlarge_drafter`` needs to know
    config.tie_word_embeddings = False  # SGLang cannot put the target's embedding and head in the place of tied ones
    if kind == "eagle":
        if drafted is not None:
            config.draft_vocab_size = drafted
        return config.to_json_string()
    # SGLang asks for this of EAGLE-3: the size of its vocabulary if that is its own, and the layers whose outputs are read.
    read = [layer - 1 for layer in captured_layers(kind, target.num_hidden_layers)]
    more = {"draft_vocab_size": drafted, "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": read}}
    return json.dumps(json.loads(config.to_json_string()) | more, indent=2, sort_keys=True) + "\n"
