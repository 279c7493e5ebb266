"""The shape and the character tokenizer of the built-in model ``tiny``: an ordinary Qwen2 folder, deep and narrow.

Sixteen thin layers make one layer a small part of the whole, as in real models, so a one-layer drafter pays off here too.
"""

import string

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
BYTE_LEVEL_SPACE, BYTE_LEVEL_NEWLINE = "Ġ", "Ċ"
CONTEXT = 2048


def tiny_config(vocab_size: int) -> Qwen2Config:
    """About 4.4 M parameters: 16 layers of width 160, five query heads that share one key/value head."""
    return Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=160,
        intermediate_size=432,
        num_hidden_layers=16,
        num_attention_heads=5,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token per printable ASCII character; anything else is ``<unk>``.

    It is a byte-level BPE without merges, because transformers gives every qwen2 folder a byte-level pre-tokenizer.
    """
    characters = string.digits + string.ascii_letters + string.punctuation + BYTE_LEVEL_SPACE + BYTE_LEVEL_NEWLINE
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, UNKNOWN, *characters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )
