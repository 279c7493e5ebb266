"""A model made wider and deeper without changing its function (in the spirit of Net2Net, arXiv 1511.05641).

Every activation is copied ``width`` times: residual stream, heads, key/value heads, neurons. A matrix writes each copy and reads all
of them with unequal shares of its old weights; the shares of a weight sum to it exactly, even in bfloat16, and differ from copy to
copy, so training tells the copies apart. RMSNorm, RoPE and the attention scale are untouched: a copied vector keeps its root mean
square, and heads keep their size. An added layer repeats the one below it, but its output matrices read one half of the copies with
the negative of the other half's weights: it computes what any layer computes and adds nothing, until it is trained.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor

from engine.models.folder import read_config, read_facts, weight_files

CPU = torch.device("cpu")
WIDENED = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
HEAD_NORMS = ("q_norm.weight", "k_norm.weight")
OUTPUTS = ("o_proj", "down_proj")
ATTENTION_INPUTS = ("q_proj.weight", "k_proj.weight", "v_proj.weight")


def enlarge(source: Path, target: Path, width: int, layers: int, seed: int = 0, device: torch.device = CPU, own_head: bool = False) -> None:
    """Writes the model folder ``target``: ``source`` with all widths times ``width`` (a power of two, at least 2) and ``layers`` layers.

    Parameters grow about ``width``² times in each layer. Dtype and tokenizer stay. ``device`` is where the shares are drawn, which of
    billions of weights takes a CPU minutes; others are drawn there than on a CPU.

    Where the embedding is the head it reads every copy with its full weight, so that features become smaller by ``width``; training with
    Adam, whose steps do not, then goes that much further. With ``own_head`` the model gets a head beside the embedding instead.
    """
    depth = read_facts(source).layers
    if width < 2 or width & (width - 1):
        raise ValueError(f"width={width} must be a power of two, at least 2")
    if layers < depth:
        raise ValueError(f"layers={layers} is below the {depth} layers of {source}")
    weights, config, generator = _weights(source, device), read_config(source), Generator(device).manual_seed(seed)
    wider = {}
    for name, origin, added in _plan(sorted(weights), depth, layers):
        wider[name] = _added(name, weights[origin], width, generator) if added else _widened(name, weights[origin], width, generator)
    if config.get("tie_word_embeddings"):
        wider.pop("lm_head.weight", None)
        if own_head:
            wider["lm_head.weight"] = _shared_out(weights["model.embed_tokens.weight"], width, generator)
        else:
            wider["model.norm.weight"] /= width
    _write(target, wider, enlarged_config(source, width, layers, own_head))
    for file in source.iterdir():
        if file.is_file() and file.suffix != ".safetensors" and file.name not in ("config.json", "model.safetensors.index.json"):
            shutil.copy(file, target)


def enlarged_config(source: Path, width: int, layers: int, own_head: bool = False) -> dict[str, object]:
    """What ``enlarge`` writes into config.json."""
    config = _config(read_config(source), width, read_facts(source).layers, layers)
    return config | {"tie_word_embeddings": False} if own_head else config


def enlarge_drafter(source: Path, target: Path, width: int, seed: int = 0, device: torch.device = CPU, own_head: bool = False) -> None:
    """Writes the drafter folder ``target`` for a model enlarged by ``width``, from ``source``, the drafter of the model before; ``device``
    and ``own_head`` as there.

    If the model's embedding is its head, its features are smaller by ``width`` (see ``enlarge``), and so is the drafter's whole
    residual stream, which it reads without a norm in attention only.
    """
    config, generator = read_config(source), Generator(device).manual_seed(seed)
    if own_head:
        config["target_ties_embeddings"] = False
    scale = 1 / width if config.get("target_ties_embeddings", config.get("tie_word_embeddings")) else 1.0
    wider = {}
    for name, tensor in _weights(source, device).items():
        if not tensor.is_floating_point():
            wider[name] = tensor  # the draft vocabulary
        elif name == "fc.weight":
            embedded, features = tensor.chunk(2, dim=1)
            rows = [(_shared_out(embedded, width, generator) * scale, _shared_out(features, width, generator)) for _ in range(width)]
            wider[name] = torch.cat([torch.cat(row, dim=1) for row in rows])
        elif name == "fc.bias" or any(output in name for output in OUTPUTS):
            wider[name] = _widened(name, tensor, width, generator) * scale
        elif name.endswith(ATTENTION_INPUTS):
            wider[name] = _widened(name, tensor, width, generator) / scale
        else:
            wider[name] = _widened(name, tensor, width, generator)
    _write(target, wider, _config(config, width, 1, 1))


def _weights(folder: Path, device: torch.device = CPU) -> dict[str, Tensor]:
    return {name: tensor for file in weight_files(folder) for name, tensor in load_file(file, device=str(device)).items()}


def _write(folder: Path, weights: dict[str, Tensor], config: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _plan(names: list[str], depth: int, layers: int) -> Iterator[tuple[str, str, bool]]:
    """(new name, old name, whether its layer is added) of every tensor; added layers are spread evenly."""
    origins = _origins(depth, layers)
    for name in names:
        if not name.startswith("model.layers."):
            yield name, name, False
    for layer, origin in enumerate(origins):
        prefix = f"model.layers.{origin}."
        for name in names:
            if name.startswith(prefix):
                added = layer > 0 and origins[layer - 1] == origin
                yield f"model.layers.{layer}.{name.removeprefix(prefix)}", name, added


def _origins(depth: int, layers: int) -> list[int]:
    return [layer * depth // layers for layer in range(layers)]


def _config(config: dict[str, object], width: int, depth: int, layers: int) -> dict[str, object]:
    wider = {key: value * width for key, value in config.items() if key in WIDENED and isinstance(value, int)}
    types = config.get("layer_types")
    kinds = {"layer_types": [types[origin] for origin in _origins(depth, layers)]} if isinstance(types, list) else {}
    return {**config, **wider, **kinds, "num_hidden_layers": layers}


def _widened(name: str, tensor: Tensor, width: int, generator: Generator) -> Tensor:
    if name.endswith(HEAD_NORMS):
        return tensor.clone()
    if name == "model.embed_tokens.weight":
        return tensor.repeat(1, width)
    if tensor.ndim == 1:
        return tensor.repeat(width)
    if name == "lm_head.weight":
        return _shared_out(tensor, width, generator)
    return torch.cat([_shared_out(tensor, width, generator) for _ in range(width)])


def _added(name: str, tensor: Tensor, width: int, generator: Generator) -> Tensor:
    if not any(output in name for output in OUTPUTS):
        return _widened(name, tensor, width, generator)
    if tensor.ndim == 1:
        return torch.zeros_like(tensor.repeat(width))
    half = torch.cat([_shared_out(tensor, width // 2, generator) for _ in range(width)])
    return torch.cat([half, -half], dim=1)


def _shared_out(tensor: Tensor, copies: int, generator: Generator) -> Tensor:
    """[out, in] -> [out, copies * in]: every weight in unequal shares whose sum is exact: by Sterbenz's lemma, x - y is exact for
    x / 2 <= y <= x."""
    if copies == 1:
        return tensor
    large = (tensor * (0.5 + 0.4 * torch.rand(tensor.shape, generator=generator, device=tensor.device))).to(tensor.dtype)
    first = torch.rand(tensor.shape, generator=generator, device=tensor.device) < 0.5
    one, other = torch.where(first, large, tensor - large), torch.where(first, tensor - large, large)
    return torch.cat([_shared_out(half, copies // 2, generator) for half in (one, other)], dim=1)
