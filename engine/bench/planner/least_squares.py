"""Levenberg and Marquardt's least squares within bounds; a handful of parameters, derivatives by differences."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
STEP = 1e-4
"""Of a difference, as a share of the range of its parameter."""


def fit(residuals: Callable[[Array], Sequence[float]], start: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Array:
    """Parameters [P] between ``low`` and ``high`` at which the sum of squares is least, as far as a descent from ``start`` finds it."""
    least, width = np.array(low, float), np.array(high, float) - np.array(low, float)

    def at(place: Array) -> Array:
        return np.array(residuals(least + width * place), float)

    place, damping = (np.array(start, float) - least) / width, 1e-2
    found = at(place)
    for _ in range(60):
        inside = np.where(place > 0.5, -STEP, STEP)
        slopes = np.stack([(at(place + step * unit) - found) / step for step, unit in zip(inside, np.eye(len(place)), strict=True)], 1)
        for _ in range(8):
            normal = slopes.T @ slopes
            move = np.linalg.solve(normal + damping * (np.diag(normal.diagonal()) + 1e-9 * np.eye(len(place))), -slopes.T @ found)
            tried = np.clip(place + move, 0, 1)
            after = at(tried)
            if after @ after < found @ found:
                break
            damping *= 4
        else:
            break
        gained = 1 - (after @ after) / (found @ found)
        place, found, damping = tried, after, damping / 4
        if gained < 1e-5:
            break
    found_best: Array = least + width * place
    return found_best
