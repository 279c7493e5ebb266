"""What a tokenizer is given to read."""

from collections.abc import Sequence
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast


def read_characters(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of each text from now on, as they come."""
    read, tokenise = list[int](), PreTrainedTokenizerFast.__call__

    def noting(self: PreTrainedTokenizerFast, texts: Sequence[str], **options: Any) -> Any:
        read.extend(map(len, texts))
        return tokenise(self, list(texts), **options)

    monkeypatch.setattr(PreTrainedTokenizerFast, "__call__", noting)
    return read
