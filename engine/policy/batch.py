"""Training rows, how they are shared out over workers, and the padded micro-batches they are computed in."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# What a micro-batch costs beside its tokens, in tokens: with less padding to save than this, it is not split further.
MICROBATCH_OVERHEAD = 64


@dataclass(frozen=True)
class Row:
    """One response. ``tokens`` is prompt then response; ``rollout_logprobs`` has one entry per response token.

    A ``masked`` one is no part of the loss; it is looked at by inference only.
    """

    tokens: tuple[int, ...]
    prompt_length: int
    advantage: float
    rollout_logprobs: tuple[float, ...]
    masked: bool = False

    def __post_init__(self) -> None:
        if self.prompt_length < 1:
            raise ValueError("a row needs at least one prompt token")
        if self.prompt_length + len(self.rollout_logprobs) != len(self.tokens):
            raise ValueError(f"{len(self.tokens) - self.prompt_length} response tokens, {len(self.rollout_logprobs)} log-probs")

    @property
    def response_length(self) -> int:
        return len(self.rollout_logprobs)

    def teaches(self, kl: bool) -> bool:
        """Whether the loss, with a KL term or without, has a gradient here."""
        return not self.masked and (kl or self.advantage != 0)


@dataclass(frozen=True)
class Inferred:
    """What the inference stage found out about the R response tokens of a row, each [R], on the CPU."""

    logprobs: Tensor
    reference_logprobs: Tensor | None


@dataclass(frozen=True)
class Microbatch:
    """Right-padded rows. Under causal attention no real position sees the padding, so there is no mask.

    ``rows`` [B]: indices of the rows; ``responses`` [B]: their response lengths, N in all; ``tokens`` [B, T]; ``predictors`` [N]:
    indices into the B*T positions whose hidden states predict the response tokens ``labels`` [N], row after row.
    """

    rows: tuple[int, ...]
    responses: tuple[int, ...]
    tokens: Tensor
    predictors: Tensor
    labels: Tensor

    def join(self, values: Sequence[Tensor]) -> Tensor:
        """[N] on the batch's device, from the response tokens' values of all rows."""
        return torch.cat([values[index] for index in self.rows]).to(self.labels.device)

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        """From [N], each of this batch's rows' own values, on the CPU."""
        return torch.split(values.cpu(), list(self.responses))


def microbatches(rows: Sequence[Row], padded_tokens: int, device: torch.device) -> list[Microbatch]:
    """``rows`` in micro-batches of at most ``padded_tokens`` (a longer row stands alone), longest first."""
    return [_padded(rows, members, device) for members in group_by_length([len(row.tokens) for row in rows], padded_tokens)]


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


def balance(lengths: Sequence[int], parts: int) -> list[list[int]]:
    """Indices of ``lengths`` in ``parts`` lists of nearly equal total length: each goes, longest first, to the least loaded part.

    Deterministic. Totals differ by at most the longest length; each list is sorted, and may be empty.
    """
    loads = [(0, part) for part in range(parts)]
    members: list[list[int]] = [[] for _ in range(parts)]
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        load, part = loads[0]
        members[part].append(index)
        heapq.heapreplace(loads, (load + lengths[index], part))
    return [sorted(part) for part in members]


def _padded(rows: Sequence[Row], members: list[int], device: torch.device) -> Microbatch:
    width = max(len(rows[index].tokens) for index in members)
    tokens = torch.zeros(len(members), width, dtype=torch.long)
    predictors, labels = [], []
    for line, index in enumerate(members):
        row, length = rows[index], len(rows[index].tokens)
        tokens[line, :length] = torch.tensor(row.tokens)
        predictors.append(torch.arange(row.prompt_length - 1, length - 1) + line * width)
        labels.append(tokens[line, row.prompt_length : length])
    return Microbatch(
        rows=tuple(members),
        responses=tuple(rows[index].response_length for index in members),
        tokens=tokens.to(device),
        predictors=torch.cat(predictors).to(device),
        labels=torch.cat(labels).to(device),
    )
