"""Conversations as the model gets them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROLES = ("user", "assistant")


def encode(tokenizer: "PreTrainedTokenizerBase", conversations: Sequence[Sequence[str]]) -> tuple[list[str], list[list[int]]]:
    """Texts and token ids. The turns of a conversation are the user's and the model's by turns, and the model is next; without a chat
    template they are lines. A chat template writes its special tokens itself. Whether they are too long the caller says."""
    if not conversations:
        return [], []
    if not tokenizer.chat_template:
        lines = ["\n".join(turns) for turns in conversations]
        return lines, tokenizer(lines, verbose=False).input_ids
    chats = [[{"role": ROLES[place % 2], "content": turn} for place, turn in enumerate(turns)] for turns in conversations]
    rendered = cast(list[str], tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True))
    return rendered, tokenizer(rendered, add_special_tokens=False, verbose=False).input_ids
