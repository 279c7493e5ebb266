"""A model whose weights are shared out over workers: made empty, then each worker reads its own parts of the safetensors files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from engine.errors import ModelError
from engine.models.families import FAMILIES
from engine.models.folder import read_facts
from engine.models.load import load_config, readable


def empty_model(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The causal LM in ``folder`` in evaluation mode, on the meta device: without memory for its weights."""
    family = read_facts(folder).family
    if FAMILIES[family].experts:
        raise ModelError(f"{folder}: a {family} model cannot be trained with cluster.learner.parallel=fsdp; set it to ddp")
    with readable(folder):
        config = load_config(folder)
        with torch.device("meta"):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)  # type: ignore[no-untyped-call]
        if (folder / "generation_config.json").is_file():
            model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    model.eval()  # type: ignore[no-untyped-call]
    return model


def read_shards(weights: Mapping[str, Tensor], folder: Path, group: dist.ProcessGroup) -> None:
    """Fills this worker's shards of the weights, by Hugging Face name, from ``folder``; all workers of ``group`` call it together.
    ModelError names weights that are missing."""
    reader = HuggingFaceStorageReader(str(folder))
    if missing := sorted(weights.keys() - reader.read_metadata().state_dict_metadata.keys()):
        raise ModelError(f"{folder}: {len(missing)} weights are missing, such as {missing[0]}")
    load(dict(weights), storage_reader=reader, process_group=group)


def renew_rotary(model: PreTrainedModel, device: torch.device) -> None:
    """Computes on ``device`` what no file holds and a model made on the meta device lacks: the rotary frequencies, and the scale of a
    Gemma's embeddings."""
    base: Any = model.base_model
    if hasattr(base.embed_tokens, "embed_scale"):
        base.embed_tokens.embed_scale.fill_(base.embed_tokens.scalar_embed_scale)
    base.rotary_emb = type(base.rotary_emb)(config=model.config).to(device)
