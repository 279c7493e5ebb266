"""A tokenizer from the fields of a GGUF file.

That which transformers makes of them takes the beginning for the end, and other word boundaries than the file names.
"""

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from engine.errors import ModelError

CONTROL, USER_DEFINED = 3, 4
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
LLAMA_3 = PRETOKENIZE_REGEX.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def _words(pattern: str) -> Any:
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
WORDS = {
    "gpt-2": BYTES,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES]),
    "qwen2": _words(PRETOKENIZE_REGEX),
    "deepseek-r1-qwen": _words(PRETOKENIZE_REGEX),
    "llama-bpe": _words(LLAMA_3),
}
"""How text is cut before merges are applied, by tokenizer.ggml.pre."""


def gguf_tokenizer(fields: Mapping[str, Any]) -> PreTrainedTokenizerFast:
    """``fields`` are those of the file whose name begins with ``tokenizer.``. ModelError if it is no byte-level BPE with known words."""
    kind, words = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if kind != "gpt2" or words not in WORDS:
        raise ModelError(
            f"its tokenizer ({kind}, {words}) cannot be taken from GGUF, that of gpt2 with {', '.join(WORDS)} can; "
            "use the model's Hugging Face folder instead"
        )
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=words == "llama-bpe"))
    tokenizer.normalizer = normalizers.NFC() if "qwen" in words else None
    tokenizer.pre_tokenizer, tokenizer.decoder = WORDS[words], decoders.ByteLevel()
    for token, type_ in zip(tokens, fields.get("tokenizer.ggml.token_type", ()), strict=False):
        if type_ in (CONTROL, USER_DEFINED):
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=type_ == CONTROL)])
    named = {name: fields.get(f"tokenizer.ggml.{key}_token_id") for name, key in SPECIAL.items()}
    special = {name: tokens[index] for name, index in named.items() if index is not None}
    if fields.get("tokenizer.ggml.add_bos_token", words == "llama-bpe") and "bos_token" in special:
        bos = special["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, vocabulary[bos])]
        )
    made: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **special
    )
    made.chat_template = fields.get("tokenizer.chat_template")
    return made
