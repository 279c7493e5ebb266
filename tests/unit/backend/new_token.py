"""The type of the fixture ``new_token``."""

from collections.abc import Callable

NewToken = Callable[..., str]
