"""How many of the drafted tokens the target accepts, by what drafted them."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from longtail.schemas.telemetry import Series, SpeculationStep

DraftSource = Literal["eagle", "ngram"]
SOURCE_NAMES: Mapping[DraftSource, str] = {"eagle": "learned drafter", "ngram": "n-grams"}


class PositionCounts(NamedTuple):
    """Tokens by draft position."""

    drafted: Sequence[int]
    accepted: Sequence[int]

    @property
    def accept_length(self) -> float | None:
        """Tokens that a pass of the target brings with a draft, its own one included; None without a draft."""
        return 1 + sum(self.accepted) / self.drafted[0] if self.drafted and self.drafted[0] else None


def position_counts(steps: Sequence[SpeculationStep], source: DraftSource) -> PositionCounts:
    """Of one source over ``steps``. What was not told apart counts as the learned drafter's."""
    ngrams = PositionCounts(
        _totals([step.ngram_drafted_by_position or [] for step in steps]),
        _totals([step.ngram_accepted_by_position or [] for step in steps]),
    )
    if source == "ngram":
        return ngrams
    both = (_totals([step.drafted_by_position for step in steps]), _totals([step.accepted_by_position for step in steps]))
    return PositionCounts(*(_minus(whole, part) for whole, part in zip(both, ngrams, strict=True)))


def accept_lengths(steps: Sequence[SpeculationStep]) -> dict[str, Series]:
    """A series for each source that drafted, by its name."""
    found = {}
    for source, name in SOURCE_NAMES.items():
        values = [(step.step, position_counts([step], source).accept_length) for step in steps]
        if any(value is not None for _, value in values):
            found[name] = Series(steps=[step for step, _ in values], values=[value for _, value in values])
    return found


def _totals(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(row[i] for row in rows if i < len(row)) for i in range(max(map(len, rows), default=0))]


def _minus(whole: Sequence[int], part: Sequence[int]) -> list[int]:
    return [count - (part[i] if i < len(part) else 0) for i, count in enumerate(whole)]
