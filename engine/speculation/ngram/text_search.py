"""Where the last tokens of a text occurred before, in texts joined to one array."""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NOWHERE = -1
"""Separates texts; as an order, what is no place."""
FEW = 64
"""Places that are compared token by token at once; while there are more, they are sifted by one token after another."""


class JoinedTexts:
    """``texts`` and, for each token, when it was written: the ``orders``. Both start with NOWHERE. A place is where an order is not."""

    def __init__(self, texts: Sequence["array[int]"], orders: Sequence["array[int]"]) -> None:
        end = array("i", (NOWHERE,))
        self._tokens = np.concatenate([*texts, end])
        self._order = np.concatenate([*orders, end])

    @property
    def bytes(self) -> int:
        return self._tokens.nbytes + self._order.nbytes

    def longest(self, context: "array[int]", most: int) -> tuple[int, NDArray[np.intp]]:
        """How many of the last tokens of ``context`` stand before some place, and the ``most`` newest such places, newest first."""
        if not context:
            return 0, np.zeros(0, np.intp)
        tokens, backwards = self._tokens, context[::-1]
        ends = (tokens == backwards[0]).nonzero()[0]
        ends = ends[self._order[ends + 1] != NOWHERE]
        match = min(len(ends), 1)
        while len(ends) > FEW and match < len(backwards):
            further = ends[tokens[ends - match] == backwards[match]]
            if not len(further):
                break
            ends, match = further, match + 1
        if 0 < len(ends) <= FEW and match < len(backwards):
            equal = tokens[ends[:, None] - np.arange(match, len(backwards))] == backwards[match:]
            more = np.logical_and.accumulate(equal, 1).sum(1)
            longest = int(more.max())
            ends, match = ends[more == longest], match + longest
        places = ends + 1
        if len(places) > 1:
            places = places[(-self._order[places]).argsort()][:most]
        return match, places

    def following(self, places: NDArray[np.intp], length: int) -> list[list[int]]:
        """The tokens from each place on; NOWHERE after the end of its text, and of others behind that."""
        following: list[list[int]] = self._tokens.take(places[:, None] + np.arange(length), mode="clip").tolist()
        return following
