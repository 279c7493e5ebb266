"""What a drafter's weights look like, found from their names and shapes."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.drafter.kind import DrafterKind, weights_kind
from engine.drafter.vocabulary import D2T


@dataclass(frozen=True)
class DrafterLayout:
    """``drafted``: the tokens that it drafts from; None: all that the target has."""

    kind: DrafterKind = "eagle"
    drafted: int | None = None

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> "DrafterLayout":
        """Of weights with the names of ``Drafter.state_dict``."""
        return cls(weights_kind(weights.keys()), len(weights[D2T]) if D2T in weights else None)
