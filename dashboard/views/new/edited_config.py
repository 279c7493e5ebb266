"""A configuration in the making: what it begins as, and what the user has changed since."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dashboard.views.new.schema_fields import Config, field, with_value


@dataclass(frozen=True)
class EditedConfig:
    """``edits`` are (dotted field, value), the oldest first. ``base`` None: that of the preset or run which is chosen."""

    base: Config | None = None
    edits: tuple[tuple[str, Any], ...] = ()

    def edited(self, path: str, value: Any) -> "EditedConfig":
        """Of a field that is changed again and again the last value is kept."""
        earlier = self.edits[:-1] if self.edits and self.edits[-1][0] == path else self.edits
        return EditedConfig(self.base, (*earlier, (path, value)))

    def config(self, schema: Mapping[str, Any], chosen: Config) -> Config:
        """``base``, or else ``chosen``, with the edits, but for those of fields that another choice has taken away."""
        config = chosen if self.base is None else self.base
        for path, value in self.edits:
            with suppress(KeyError):
                config = with_value(config, field(schema, path, config), value)
        return config


def with_defaults(config: Config, full: Config) -> Config:
    """``config`` with what it leaves out as it is in ``full``."""
    result = {**full, **config}
    for key, value in config.items():
        if isinstance(value, dict) and isinstance(full.get(key), dict):
            result[key] = with_defaults(value, full[key])
    return result
