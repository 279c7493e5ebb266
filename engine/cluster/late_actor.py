"""Ray actors whose classes are imported in their own processes only: these take seconds, for which the training loop's need not wait."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def uncollected() -> Iterator[None]:
    """What is imported inside the block stays, so that the garbage collector looks through it in vain: a quarter of the import's time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # else the next collection would look through all of it
        gc.enable()


class LateActor:
    """To be made a Ray actor: it has the methods of the object that it makes."""

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        """An object of the class ``name`` of ``module``."""
        with uncollected():
            made = getattr(import_module(module), name)
        self._made = made(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._made, method)(*arguments)


class LateHandle:
    """The handle of a ``LateActor``, with methods as those of a handle of Ray's."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, method: str) -> "LateMethod":
        return LateMethod(self._handle.call, method)


class LateMethod:
    """``call`` is Ray's, perhaps with options."""

    def __init__(self, call: Any, method: str) -> None:
        self._call, self._method = call, method

    def remote(self, *arguments: Any) -> Any:
        return self._call.remote(self._method, *arguments)

    def options(self, **options: Any) -> "LateMethod":
        return LateMethod(self._call.options(**options), self._method)
