"""How far two colours are apart: WCAG's contrast ratio, and the distance in CIELAB, in which 2.3 is just seen."""

from itertools import pairwise

import numpy as np

XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE_POINT = np.array([0.9505, 1.0, 1.089])


def channels(color: str) -> np.ndarray:
    return np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255


def linear(color: str) -> np.ndarray:
    given = channels(color)
    return np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(XYZ[1] @ linear(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def over(color: str, opacity: float, ground: str) -> str:
    """What is seen of a colour that lets the ground through."""
    mixed = opacity * channels(color) + (1 - opacity) * channels(ground)
    return "#" + "".join(f"{round(255 * value):02X}" for value in mixed)


def between(colors: tuple[str, ...], steps: int = 20) -> list[str]:
    """The colours of a scale."""
    return [over(after, step / steps, before) for before, after in pairwise(colors) for step in range(steps + 1)]


def distance(one: str, other: str) -> float:
    return float(np.linalg.norm(_lab(one) - _lab(other)))


def _lab(color: str) -> np.ndarray:
    x, y, z = np.cbrt(XYZ @ linear(color) / WHITE_POINT)  # of colours that are not nearly black
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
