"""Tokens and log-probs on their way between processes."""

from typing import Any, ClassVar

import numpy as np


class PickledArrays:
    """A dataclass, frozen or not, whose fields in ``_tokens`` (ids) and ``_logprobs`` are tuples of Python numbers. They are pickled as
    arrays, of 4 and 8 bytes a number: exact to the bit, and Ray puts their bytes into its store without a look at each."""

    _tokens: ClassVar[str] = "tokens"
    _logprobs: ClassVar[str] = "logprobs"

    def __getstate__(self) -> dict[str, Any]:
        own = self.__dict__
        tokens, logprobs = np.array(own[self._tokens], np.int32), np.array(own[self._logprobs], np.float64)
        return own | {self._tokens: tokens, self._logprobs: logprobs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {name: tuple(state[name].tolist()) for name in (self._tokens, self._logprobs)})
