"""Random models of some hundred thousand parameters as ordinary Hugging Face folders, for any test that needs a model.

``make_random_model(folder)`` writes one; the session fixture ``random_model`` (conftest.py) is a shared qwen2, read only.
"""

from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

Family = Literal[
    "qwen2", "qwen3", "llama", "mistral", "phi3", "qwen3_moe", "gemma3_text", "olmo2", "stablelm", "gpt2", "opt", "phi", "gpt_neox"
]
ODD: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": 64},
    "phi3": {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.75}},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "norm_topk_prob": True},
    "gemma3_text": {"sliding_window": 64, "sliding_window_pattern": 2},
    "gpt2": {"num_key_value_heads": 4},
    "opt": {"num_key_value_heads": 4, "ffn_dim": 192, "word_embed_proj_dim": 64},
    "gpt_neox": {"num_key_value_heads": 4},
}
PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE without merges: one token for each byte, any text can be written. 259 tokens; pad is 0, end is 1."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate([PAD, EOS, UNKNOWN, *alphabet])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN)  # type: ignore[no-untyped-call]


def make_random_model(
    folder: Path,
    family: Family = "qwen2",
    *,
    layers: int = 2,
    hidden: int = 64,
    context: int = 2048,
    tied: bool = True,
    chat: bool = False,
    seed: int = 0,
) -> Path:
    """Writes a float32 model with four query heads, two key/value heads and no zero weights, and returns ``folder``."""
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE if chat else None
    usual = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": hidden // 4,
        "max_position_embeddings": context,
        "tie_word_embeddings": tied,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
    }
    config = AutoConfig.for_model(family, **(usual | ODD.get(family, {})))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
