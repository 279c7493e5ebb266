"""Hugging Face folders from GGUF files."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from gguf import GGMLQuantizationType, GGUFReader
from transformers import AutoConfig, AutoModelForCausalLM, modeling_gguf_pytorch_utils
from transformers.utils import logging

from engine.errors import ModelError
from engine.models.gguf_tokenizer import gguf_tokenizer
from engine.models.load import load_tokenizer, parameters_of, quiet

# Its own progress bar does not heed that engine.models.load turns them off.
modeling_gguf_pytorch_utils.tqdm = logging.tqdm  # type: ignore[attr-defined]

GB = 10**9
SUPPORTED = ("qwen2", "qwen3", "llama")
UNQUANTISED = {GGMLQuantizationType.F32: torch.float32, GGMLQuantizationType.F16: torch.float16}


class _Reader(GGUFReader):
    def _get(self, offset: int, dtype: Any, count: Any = 1, override_order: Any = None) -> Any:
        """What lies beyond the end of the file is no number: of a list that claims to be endless GGUFReader reads on for ever."""
        found = super()._get(offset, dtype, count, override_order)
        if len(found) < count:
            raise ValueError("it ends before its lists do")
        return found


def unpack(file: Path, folder: Path) -> None:
    """Writes the model folder ``folder``: the values of ``file`` in bfloat16, or float32 or float16 if all its matrices are that.

    ModelError if the file is damaged, of an architecture that is not supported, has what transformers would leave out, or would take
    more than the disk has left.
    """
    try:
        reader = _Reader(file)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except OSError as error:
        raise ModelError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise ModelError(f"{file}: damaged, or no GGUF file: {error}") from None
    _check(file, fields, {tensor.name for tensor in reader.tensors})
    types = {tensor.tensor_type for tensor in reader.tensors if len(tensor.shape) > 1}
    dtype = UNQUANTISED.get(types.pop(), torch.bfloat16) if len(types) == 1 else torch.bfloat16
    held = sum(int(tensor.n_elements) for tensor in reader.tensors)
    _check_room(file, held * dtype.itemsize, folder.parent)
    try:
        tokenizer = gguf_tokenizer(fields)
        with quiet():
            model = _model(file, dtype, fields.get("qwen3.attention.key_length"), held)
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None
    except OSError:
        raise
    except Exception as error:  # tokenizers and transformers have no errors of their own for what they cannot read
        raise ModelError(f"{file}: damaged: {error}") from None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    load_tokenizer(folder)


def _check(file: Path, fields: dict[str, Any], tensors: set[str]) -> None:
    family = fields.get("general.architecture")
    if family not in SUPPORTED:
        listed = ", ".join(SUPPORTED)
        raise ModelError(
            f"{file}: unsupported architecture {family}; of {listed} GGUF can be read, else use the model's Hugging Face folder"
        )
    blocks = {name.split(".")[1] for name in tensors if name.startswith("blk.")}
    if (said := fields.get(f"{family}.block_count")) != len(blocks):
        raise ModelError(f"{file}: damaged: it says that it has {said} blocks, and holds weights of {len(blocks)}")
    scaling = fields.get(f"{family}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in tensors:
        raise ModelError(f"{file}: its scaled rotary embedding cannot be taken from GGUF; use the model's Hugging Face folder instead")


def _check_room(file: Path, needed: int, folder: Path) -> None:
    """``needed``: bytes of the weights, as they are written."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ModelError(f"{file}: as a model folder it takes {needed / GB:,.1f} GB, and {free / GB:,.1f} GB are free in {folder}")


def _model(file: Path, dtype: torch.dtype, head_dim: int | None, held: int) -> Any:
    """In a folder of its own, as transformers also reads what lies beside the file; of qwen3 it leaves out the heads' width. ``held``:
    how many weights there are."""
    known = {} if head_dim is None else {"head_dim": head_dim}
    with TemporaryDirectory() as alone:
        (Path(alone) / "model.gguf").symlink_to(file.absolute())
        config = AutoConfig.from_pretrained(alone, gguf_file="model.gguf", local_files_only=True, trust_remote_code=False, **known)
        if (described := parameters_of(config)) != held:
            raise ModelError(f"holds {held} weights, but a {config.model_type} model of its shape {described}")
        found: Any = AutoModelForCausalLM.from_pretrained(
            alone,
            config=config,
            gguf_file="model.gguf",
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    model, loaded = found
    if missing := sorted(loaded["missing_keys"]):
        raise ModelError(f"{len(missing)} weights are missing, such as {missing[0]}")
    for name in ("quantization_config", "_model_name_or_path"):
        vars(model.config).pop(name, None)
    model.hf_quantizer = None  # transformers 5.17 saves nothing that was read from blocks
    return model
