"""Least squares of few unknowns, none of them negative."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def not_negative(matrix: Values, wanted: Values) -> Values:
    """The x [K] >= 0 of the least ``|matrix @ x - wanted|``, with ``matrix`` [N, K] and ``wanted`` [N]: the best of all choices of what is
    not 0, which is that of Lawson and Hanson (1974) at a cost of 2 ** K."""
    best, least = np.zeros(matrix.shape[1]), float(wanted @ wanted)
    for count in range(1, matrix.shape[1] + 1):
        for chosen in map(list, combinations(range(matrix.shape[1]), count)):
            found = np.linalg.lstsq(matrix[:, chosen], wanted, rcond=None)[0]
            error = float(((matrix[:, chosen] @ found - wanted) ** 2).sum())
            if found.min() >= 0 and error < least:
                best, least = np.zeros(matrix.shape[1]), error
                best[chosen] = found
    return best
