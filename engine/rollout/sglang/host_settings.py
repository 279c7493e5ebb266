"""What a host process is started with, for itself and, by a file, for the plugin in SGLang's processes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from engine.config import SpeculationConfig
from engine.rollout.sglang.supported_speculation import SGLangDrafter

VARIABLE = "LONGTAIL_SGLANG_SETTINGS"
"""Where SGLang's processes find these settings; without them the plugin does nothing."""


@dataclass(frozen=True)
class HostSettings:
    """``folder`` is the engine's own, for files between its processes. ``speculation`` is as ``supported`` made it.
    ``arguments`` are those of ``sglang.Engine``."""

    folder: str
    arguments: dict[str, Any]
    speculation: SpeculationConfig | None
    drafting: SGLangDrafter | None
    seed: int
    max_batch: int

    def write(self, path: Path) -> None:
        path.write_bytes(_SETTINGS.dump_json(self))

    @classmethod
    def read(cls, path: Path) -> "HostSettings":
        return _SETTINGS.validate_json(path.read_bytes())


_SETTINGS = TypeAdapter(HostSettings)


def current() -> HostSettings | None:
    """Those of the host that this process belongs to."""
    path = os.environ.get(VARIABLE)
    return HostSettings.read(Path(path)) if path else None
