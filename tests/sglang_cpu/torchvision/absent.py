from collections.abc import Callable
from typing import Any


def absent(name: str) -> Callable[..., Any]:
    """A function that may be imported, but not called."""
    if name.startswith("__"):
        raise AttributeError(name)

    def function(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"torchvision's {name}: no test has images")

    return function
