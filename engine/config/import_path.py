"""Users' own functions, named in the configuration by import path."""

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

from pydantic import Field

from engine.errors import ConfigError

ImportPath = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
"""``package.module:function``."""


def load_function(field: str, path: str) -> Callable[..., Any]:
    """The function at ``package.module:function``; ConfigError, naming the ``field``, if there is none."""
    module, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{field}: {path} cannot be imported: {error}; put its folder on PYTHONPATH") from None
    except Exception as error:  # what else a module does as it is imported, or a mistake in its text, is its author's to mend
        raise ConfigError(f"{field}: {path} cannot be imported, as {module} raises {error!r}; mend it") from None
    if not callable(found):
        raise ConfigError(f"{field}: {path} is no function")
    return found  # type: ignore[no-any-return]  # what it takes and gives shows when it is called
