"""Training rows, how they are shared out over workers, and the micro-batches they are computed in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from engine.models.host_to_device import to_device
from engine.models.packed_attention import Segments
from engine.policy.training.training_row import TrainingRow, siblings

# What a micro-batch costs beside its tokens, in tokens: with less padding to save than this, it is not split further.
MICROBATCH_OVERHEAD = 64
# What a part of a packed row (a prompt, or a response to it) costs beside its tokens, in tokens: attention takes one after the other.
PART_OVERHEAD = 8

Packed = Literal["auto"] | bool


@dataclass(frozen=True)
class Microbatch:
    """Rows one below the other, right-padded: under causal attention no real position sees the padding, so there is no mask. Or, with
    ``segments`` and ``positions``, packed: a single line of prompts, after each of them the responses to it, kept apart by attention.

    ``rows`` [R]: indices of the rows; ``responses`` [R]: their response lengths, N in all; ``tokens`` [B, T]; ``places`` [R]: where the
    tokens of each row are among the B*T positions, on the CPU; ``predictors`` [N]: which of these have the hidden states that predict
    the response tokens ``labels`` [N], row after row. Packed, ``segments`` are of ``packed_attention.Segments``, and ``positions``
    [1, T] are what each token's would be in a row of its own.
    """

    rows: tuple[int, ...]
    responses: tuple[int, ...]
    places: tuple[Tensor, ...]
    tokens: Tensor
    predictors: Tensor
    labels: Tensor
    segments: Segments | None = None
    positions: Tensor | None = None

    def join(self, values: Sequence[Tensor]) -> Tensor:
        """[N] on the batch's device, from the response tokens' values of all rows."""
        return to_device(torch.cat([values[index] for index in self.rows]), self.labels.device)

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        """From [N], each of this batch's rows' own values, on the CPU."""
        return torch.split(values.cpu(), list(self.responses))


def microbatches(rows: Sequence[TrainingRow], tokens: int, device: torch.device, packed: Packed = False) -> list[Microbatch]:
    """``rows`` in micro-batches of at most ``tokens``, padding included (a longer row stands alone), longest first. Packed, responses to
    the same prompt share it, as far as they fit into one; ``auto``: packed where that costs less. Equal rows come in equal batches."""
    lengths = [len(row.tokens) for row in rows]
    groups = [] if packed is True else group_by_length(lengths, tokens)
    filled = _filled(rows, tokens) if packed else []
    if packed is True or (packed and packed_cost(rows, filled) < padded_cost(lengths, groups)):
        return [_packed(rows, families, device) for families in filled]
    return [_padded(rows, members, device) for members in groups]


def padded_cost(lengths: Sequence[int], groups: Sequence[Sequence[int]]) -> int:
    """Of padded micro-batches, in tokens."""
    return sum(len(group) * max(lengths[index] for index in group) + MICROBATCH_OVERHEAD for group in groups)


def packed_cost(rows: Sequence[TrainingRow], filled: Sequence[Sequence[Sequence[int]]]) -> int:
    """Of micro-batches of families of rows, in tokens."""
    families = [[rows[index] for index in members] for batch in filled for members in batch]
    tokens = sum(family[0].prompt_length + sum(row.response_length for row in family) for family in families)
    parts = sum(len(family) + (len(family) > 1) for family in families)
    return tokens + PART_OVERHEAD * parts + MICROBATCH_OVERHEAD * len(filled)


def idle(device: torch.device) -> Microbatch:
    """One without any rows, for a worker that has none left while others have: its gradient is zero."""
    nothing = torch.zeros(0, dtype=torch.long, device=device)
    return Microbatch((), (), (), torch.zeros(1, 1, dtype=torch.long, device=device), nothing, nothing)


def fill(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Indices of ``lengths`` in groups of at most ``tokens`` in all (a longer one stands alone): first fit, the longest first, which
    needs at most 11/9 of the fewest groups possible, and one more (Johnson 1973)."""
    groups: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        place = next((place for place, free in enumerate(room) if lengths[index] <= free), len(groups))
        if place == len(groups):
            groups.append([])
            room.append(tokens)
        groups[place].append(index)
        room[place] -= lengths[index]
    return groups


def group_by_length(lengths: Sequence[int], padded_tokens: int) -> list[list[int]]:
    """Indices of ``lengths`` in groups of at most ``padded_tokens`` (count times longest), with the least padding and overhead.

    An exact dynamic program: some optimal grouping cuts the sorted sequence into runs.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    costs, starts = [0], [0]
    for end in range(1, len(order) + 1):
        choices = []
        for start in range(end - 1, -1, -1):
            padded = (end - start) * lengths[order[start]]
            if padded > padded_tokens and start < end - 1:
                break
            choices.append((costs[start] + padded + MICROBATCH_OVERHEAD, start))
        cost, start = min(choices)
        costs.append(cost)
        starts.append(start)
    groups, end = [], len(order)
    while end > 0:
        groups.append(order[starts[end] : end])
        end = starts[end]
    return groups[::-1]


def _filled(rows: Sequence[TrainingRow], tokens: int) -> list[list[list[int]]]:
    """Micro-batches of families of rows, which share a prompt, each family first fit and no longer than ``tokens``."""
    families, lengths = [], []
    for members in siblings(rows):
        prompt, responses = rows[members[0]].prompt_length, [rows[index].response_length for index in members]
        for part in fill(responses, tokens - prompt):
            families.append([members[place] for place in part])
            lengths.append(prompt + sum(responses[place] for place in part))
    return [[families[place] for place in group] for group in fill(lengths, tokens)]


def _padded(rows: Sequence[TrainingRow], members: Sequence[int], device: torch.device) -> Microbatch:
    tokens = pad_sequence([torch.tensor(rows[index].tokens) for index in members], batch_first=True)
    places = [torch.arange(len(rows[index].tokens)) + line * tokens.shape[1] for line, index in enumerate(members)]
    return _microbatch(rows, members, tokens, places, device)


def _packed(rows: Sequence[TrainingRow], families: Sequence[Sequence[int]], device: torch.device) -> Microbatch:
    line: list[int] = []
    places: list[Tensor] = []
    positions: list[Tensor] = []
    segments: list[int | tuple[int, ...]] = []
    for members in families:
        length = rows[members[0]].prompt_length
        prompt = torch.arange(length) + len(line)
        line += rows[members[0]].tokens[:length]
        positions.append(torch.arange(length))
        for index in members:
            response = torch.arange(rows[index].response_length)
            places.append(torch.cat((prompt, response + len(line))))
            line += rows[index].tokens[length:]
            positions.append(response + length)
        responses = tuple(rows[index].response_length for index in members)
        segments.append((length, *responses) if len(members) > 1 else length + responses[0])
    tokens, members = torch.tensor([line]), [index for family in families for index in family]
    return _microbatch(rows, members, tokens, places, device, tuple(segments), to_device(torch.cat(positions)[None], device))


def _microbatch(
    rows: Sequence[TrainingRow],
    members: Sequence[int],
    tokens: Tensor,
    places: Sequence[Tensor],
    device: torch.device,
    segments: Segments | None = None,
    positions: Tensor | None = None,
) -> Microbatch:
    chosen = [rows[index] for index in members]
    labels = [token for row in chosen for token in row.tokens[row.prompt_length :]]
    predictors = torch.cat([place[row.prompt_length - 1 : -1] for row, place in zip(chosen, places, strict=True)])
    return Microbatch(
        rows=tuple(members),
        responses=tuple(row.response_length for row in chosen),
        places=tuple(places),
        tokens=to_device(tokens, device),
        predictors=to_device(predictors, device),
        labels=to_device(torch.tensor(labels, dtype=torch.long), device),
        segments=segments,
        positions=positions,
    )
