"""Which rank of the learner computes with which rows. Pure."""

from collections.abc import Collection, Sequence

from engine.policy.training.balance import balance
from engine.policy.training.training_row import TrainingRow, siblings

Shares = list[list[int]]
"""Indices of rows, rising, for each rank."""


def row_shares(rows: Sequence[TrainingRow], ranks: int, computed: Collection[int], shared: bool) -> Shares:
    """With nearly equally much to compute for each rank. Only ``computed`` rows cost something. Where siblings may have ``shared`` their
    prompt they stay together, if the rank with most to do has less of it then."""
    apart = balance([len(row.tokens) * (index in computed) for index, row in enumerate(rows)], ranks)
    if not shared:
        return apart
    together = shares_of(rows, siblings(rows), ranks, computed)
    return min((apart, together), key=lambda shares: max(tokens_of(rows, share, computed) for share in shares))


def shares_of(
    rows: Sequence[TrainingRow], families: Sequence[Sequence[int]], ranks: int, computed: Collection[int], busy: Sequence[int] = ()
) -> Shares:
    """The same of ``families`` that stay together. ``busy``: tokens that each rank has to compute with anyway."""
    members = balance([tokens_of(rows, family, computed) for family in families], ranks, busy)
    return [sorted(index for place in part for index in families[place]) for part in members]


def tokens_of(rows: Sequence[TrainingRow], share: Sequence[int], computed: Collection[int]) -> int:
    """Of the rows of ``share`` that are ``computed``, those of a prompt once."""
    found = [rows[index] for index in share if index in computed]
    prompts = {row.tokens[: row.prompt_length] for row in found}
    return sum(map(len, prompts)) + sum(row.response_length for row in found)
