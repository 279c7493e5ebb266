"""What a model folder holds, from its JSON files and safetensors headers alone: quick, and without torch."""

import json
import math
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from engine.errors import ModelError
from engine.models.families import FAMILIES, LISTED

ASSETS = Path(__file__).parent / "assets"
TINY = ASSETS / "tiny"
DRAFTER = ASSETS / "drafter"
BUILT_IN = ("tiny", "small")
SMALL_WIDTH, SMALL_LAYERS = 2, 36
"""Of ``small``, which is made of ``tiny`` when it is first needed: times its width, and layers."""
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
CAUSAL_LM = re.compile(r"\w+(ForCausalLM|LMHeadModel)")
SIZES = {"num_hidden_layers": "n_layer", "hidden_size": "n_embd", "vocab_size": "vocab_size", "max_position_embeddings": "n_positions"}
"""What a configuration must have, and what some families call it."""
SCALED = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
"""What a model does with its head's product before the softmax, if they are not 1."""
SECTIONS = ("rope_parameters", "rope_scaling", "transformer_layer_config", "eagle_config")
TRAINABLE_TYPES = ("F64", "F32", "F16", "BF16")
"""Of weights, as safetensors names them."""
QUANTISED = "quantised weights cannot be trained; use the model's float32 or bfloat16 weights"
LISTS = {"architectures": str, "eagle_aux_hidden_state_layer_ids": int, "copied_from_target": str}
"""Parts of a model's or drafter's configuration that have parts of their own, and lists of what; any of them may be missing or null."""
MADE = re.compile(r"small(-drafter)?-\d+x\d+-[0-9a-f]{12}")
"""What the built-in models leave among the models that have a name (see load.py)."""


@dataclass(frozen=True)
class ModelFacts:
    """``context`` is the longest sequence in tokens, prompt and response together."""

    family: str
    parameters: int
    layers: int
    hidden_size: int
    vocabulary: int
    context: int


def home() -> Path:
    """Where made models are kept: LONGTAIL_HOME, or .longtail in the current folder."""
    return Path(os.environ.get("LONGTAIL_HOME", ".longtail")).expanduser().absolute()


def kept(name: str) -> Path | None:
    """The folder, or the link to one, that ``longtail models`` keeps under this name; None if there is none."""
    place = home() / "models" / name
    return place if NAME.fullmatch(name) and not MADE.fullmatch(name) and os.path.lexists(place) else None


def locate(path: str) -> Path:
    """What ``model.path`` stands for: a built-in model (that of ``small`` is the folder it is made from), else a kept model of this name,
    else a folder. A folder beside one that has such a name is written ``./name``."""
    return TINY if path in BUILT_IN else kept(path) or Path(path)


def read_facts(folder: Path) -> ModelFacts:
    """Facts of a model folder. ModelError says what is missing or unsupported."""
    if folder.is_symlink() and not folder.exists():
        raise ModelError(f"{folder}: leads to {folder.readlink()}, which is gone; put that back, or: longtail models remove {folder.name}")
    if not folder.is_dir():
        raise ModelError(
            f"{folder}: no such folder; use a built-in model ({', '.join(BUILT_IN)}), a name that `longtail models` lists, "
            "or a local Hugging Face folder"
        )
    config = read_config(folder)
    check_architecture(folder, config)
    check_tokenizer(folder)
    sizes = [size for file in weight_files(folder) for size in _sizes(file)]
    if (layers := _size(config, "num_hidden_layers")) > len(sizes):
        raise ModelError(f"{folder}: config.json says {layers} layers, and there are only {len(sizes)} tensors of weights")
    return ModelFacts(
        family=config["model_type"],
        parameters=sum(sizes),
        layers=layers,
        hidden_size=_size(config, "hidden_size"),
        vocabulary=_size(config, "vocab_size"),
        context=_context(config),
    )


def check_tokenizer(folder: Path) -> None:
    """ModelError if there is none, or no JSON with one in it. Whether it can be loaded is not tried: that would take seconds."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ModelError(f"{folder}: no tokenizer (tokenizer.json)")
    status = file.stat()
    if not _has_tokenizer(file, status.st_mtime_ns, status.st_size):
        raise ModelError(f"{file}: has no tokenizer in it; copy or download it anew")


@lru_cache
def _has_tokenizer(file: Path, *_of_this_content: int) -> bool:
    """Of ten megabytes that takes a tenth of a second, and they are looked at several times in a row."""
    return isinstance(read_json(file).get("model"), dict)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json; ModelError if it is missing, not a JSON object, or has something else in the place of SECTIONS and LISTS."""
    file = folder / "config.json"
    if not file.is_file():
        raise ModelError(f"{folder}: no config.json, so not a Hugging Face model folder")
    config = read_json(file)
    _check_types(file, config)
    for section in SECTIONS:
        _check_types(file, config.get(section) or {})
    return config


def _check_types(file: Path, config: dict[str, Any]) -> None:
    for key in SECTIONS:
        if not isinstance(config.get(key), dict | None):
            raise ModelError(f"{file}: {key} must be a JSON object, but it is {config[key]!r}")
    for key, kind in LISTS.items():
        found = config.get(key)
        if found is not None and not (isinstance(found, list) and all(isinstance(each, kind) for each in found)):
            raise ModelError(f"{file}: {key} must be a list of {'numbers' if kind is int else 'names'}, but it is {found!r}")


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object; ModelError if the file holds anything else."""
    try:
        data = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file}: not readable as JSON: {error}") from None
    if not isinstance(data, dict):
        raise ModelError(f"{file}: must be a JSON object")
    return data


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model, all there; ModelError otherwise."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not index.is_file():
        pickled = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in folder.glob(pattern))
        if pickled:
            raise ModelError(
                f"{folder}: the weights are pickled ({pickled[0]}), which can run code when loaded; convert them to safetensors"
            )
        raise ModelError(f"{folder}: no weights (model.safetensors)")
    return indexed_files(index)


def indexed_files(index: Path) -> list[Path]:
    """The files that an index of weights names, all there beside it; ModelError otherwise."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ModelError(f"{index}: names no files (weight_map)")
    for name in places.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise ModelError(f"{index}: names {name!r}, which is no file of this folder")
    files = [index.parent / name for name in sorted(set(places.values()))]
    for file in files:
        if not file.is_file():
            raise ModelError(f"{index.parent}: weights are incomplete: {file.name} is missing")
    return files


def check_architecture(folder: Path, config: dict[str, Any]) -> None:
    """ModelError if config.json says that it is nothing that an engine can train: SGLang takes more causal language models than ours, see
    ``engine.preflight``."""
    if not architecture(config):
        got = f"model_type {config.get('model_type')!r}, architectures {config.get('architectures')}"
        raise ModelError(f"{folder}: unsupported architecture ({got}); supported are {LISTED} causal language models")
    for key in SIZES:
        if type(size := _size(config, key)) is not int or size < 1:
            raise ModelError(f"{folder}: config.json has no {key} above 0, but {size!r}")
    if scaled := next((key for key in SCALED if config.get(key) not in (None, 1)), None):
        raise ModelError(f"{folder}: logits that are scaled or capped ({scaled}={config[scaled]}) are not supported")
    if "quantization_config" in config:
        raise ModelError(f"{folder}: {QUANTISED}")
    if config.get("use_sliding_window"):
        raise ModelError(f"{folder}: sliding-window attention is not supported")


def architecture(config: dict[str, Any]) -> str:
    """The model's class in transformers; empty unless it is a causal language model."""
    if not isinstance(name := config.get("model_type"), str):
        return ""
    family = FAMILIES.get(name)
    usual = family.causal_lm if family else ""
    named = config.get("architectures") or [usual]
    if family:
        return usual if usual in named else ""
    return named[0] if CAUSAL_LM.fullmatch(named[0]) else ""


def _size(config: dict[str, Any], name: str) -> Any:
    return config.get(name, config.get(SIZES[name]))


def _context(config: dict[str, Any]) -> int:
    """With longrope that of the first training: beyond it all of a sequence's positions would be others."""
    longest: int = _size(config, "max_position_embeddings")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    names = ("longrope", "su", "yarn") if config["model_type"] == "phi3" else ("longrope",)  # all one for phi3
    if rope.get("rope_type", rope.get("type")) not in names:
        return longest
    original = rope.get("original_max_position_embeddings") or config.get("original_max_position_embeddings")
    return min(longest, original) if isinstance(original, int) else longest


def _sizes(file: Path) -> list[int]:
    """Numbers in each tensor. ModelError if weights are no floating-point numbers of 16 bits or more."""
    try:
        with safe_open(file, framework="numpy") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            types = {name: tensor.get_dtype() for name, tensor in slices.items() if name.endswith(".weight")}
            sizes = [math.prod(tensor.get_shape()) for tensor in slices.values()]
    except SafetensorError as error:
        raise ModelError(f"{file}: not readable as safetensors: {error}") from None
    if name := next((name for name, kind in types.items() if kind not in TRAINABLE_TYPES), None):
        raise ModelError(f"{file}: {name} is of type {types[name]}: {QUANTISED}")
    return sizes
