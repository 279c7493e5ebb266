"""GGUF files as llama.cpp's converter writes them, of models in Hugging Face folders."""

import json
from collections.abc import Callable
from pathlib import Path

from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, get_tensor_name_map, quantize
from models_for_tests import CHAT_TEMPLATE
from safetensors.torch import load_file

from engine.models.folder import read_config

NEVER = "ÿ"
"""Stands for the byte 255, which no text has."""
ARCHITECTURES = {"qwen2": MODEL_ARCH.QWEN2, "qwen3": MODEL_ARCH.QWEN3, "llama": MODEL_ARCH.LLAMA}
WORDS = {"qwen2": "qwen2", "qwen3": "qwen2", "llama": "llama-bpe"}


def write_gguf(
    source: Path,
    file: Path,
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    change: Callable[[GGUFWriter], None] | None = None,
    **other: str,
) -> Path:
    """``source`` as llama.cpp's converter writes it: llama's queries and keys have their halves interleaved."""
    config, tokenizer = read_config(source), json.loads((source / "tokenizer.json").read_text())
    family = config["model_type"]
    writer = GGUFWriter(file, other.get("architecture", family))
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    for add_dimension in (writer.add_rope_dimension_count, writer.add_key_length, writer.add_value_length):
        add_dimension(config["head_dim"] if "head_dim" in config else config["hidden_size"] // config["num_attention_heads"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(other.get("words", WORDS[family]))
    vocabulary = tokenizer["model"]["vocab"]
    first, second, merged = other.get("merge", "a b ab").split()
    writer.add_token_list([merged if token == NEVER else token for token in sorted(vocabulary, key=vocabulary.get)])
    writer.add_token_types([3 if index < 3 else 1 for index in range(len(vocabulary))])
    writer.add_token_merges([f"{first} {second}"])
    writer.add_pad_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    if change:
        change(writer)
    names = get_tensor_name_map(ARCHITECTURES[family], config["num_hidden_layers"])
    for name, weight in load_file(source / "model.safetensors").items():
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(name.split(".")[-2])
        if family == "llama" and heads:
            weight = weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        type_ = kind if weight.ndim > 1 else GGMLQuantizationType.F32
        to = names.get_name(name, (".weight", ".bias"))
        assert to is not None
        data = weight.float().numpy()
        writer.add_tensor(to, quantize(data, type_) if type_ != GGMLQuantizationType.F32 else data, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
