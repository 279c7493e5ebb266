"""A drafter's weights on their way between processes."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]


class SentWeights(dict[str, Tensor]):
    """By name, in host memory. They are pickled as arrays, whose bytes Ray puts into its store once, for all processes of a machine, and
    does not look through; of tensors each call would pickle a copy. Who receives them has memory of its own."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, ({name: weight.numpy() for name, weight in self.items()},)


def _received(arrays: Arrays) -> SentWeights:
    return SentWeights({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
