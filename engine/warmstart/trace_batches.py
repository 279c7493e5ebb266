"""Right-padded batches of search traces, grouped by length so that little is padding."""

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast

from engine.warmstart.search_traces import examples

IGNORED = -100
POOL = 512


class TraceBatches:
    """Endless batches of at most ``tokens`` padded tokens; ``longest`` may be raised while it runs (a curriculum)."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, seed: int, four_numbers: float, tokens: int) -> None:
        self.tokenizer = tokenizer
        self.tokens = tokens
        self.four_numbers = four_numbers
        self.longest = 200
        self._seed = seed

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields (input ids, labels), both [batch, length]; labels are ``IGNORED`` on prompts and padding."""
        while True:
            self._seed += 1
            pool = list(islice(examples(self._seed, self.four_numbers, self.longest), POOL))
            end = self.tokenizer.eos_token_id
            batches = self._grouped([([*self.tokenizer(prompt + response).input_ids, end], len(prompt)) for prompt, response in pool])
            order = torch.randperm(len(batches), generator=torch.Generator().manual_seed(self._seed))
            for index in order.tolist():
                yield _padded(batches[index])

    def _grouped(self, rows: list[tuple[list[int], int]]) -> list[list[tuple[list[int], int]]]:
        groups: list[list[tuple[list[int], int]]] = [[]]
        for row in sorted(rows, key=lambda row: len(row[0])):
            if (len(groups[-1]) + 1) * len(row[0]) > self.tokens:
                groups.append([])
            groups[-1].append(row)
        return groups


def _padded(rows: list[tuple[list[int], int]]) -> tuple[Tensor, Tensor]:
    inputs = pad_sequence([torch.tensor(ids) for ids, _ in rows], batch_first=True)
    labels = [torch.tensor([IGNORED] * prompt + ids[prompt:]) for ids, prompt in rows]
    return inputs, pad_sequence(labels, batch_first=True, padding_value=IGNORED)
