"""What a host process is started with, for itself and, by a file, for the plugin in SGLang's processes."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.config import SpeculationConfig
from engine.rollout.sglang.supported_speculation import SGLangDrafter

VARIABLE = "LONGTAIL_SGLANG_SETTINGS"
"""Where SGLang's processes find these settings; without them the plugin does nothing."""


@dataclass(frozen=True)
class HostSettings:
    """``folder`` is the engine's own, for files between its processes. ``speculation`` is as ``chain_speculation`` made it, dumped;
    None without speculation. ``arguments`` are those of ``sglang.Engine``."""

    folder: str
    arguments: dict[str, Any]
    speculation: dict[str, Any] | None
    drafting: SGLangDrafter | None
    seed: int
    max_batch: int

    @property
    def configured(self) -> SpeculationConfig | None:
        return None if self.speculation is None else SpeculationConfig.model_validate(self.speculation)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "HostSettings":
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def current() -> HostSettings | None:
    """Those of the host that this process belongs to."""
    path = os.environ.get(VARIABLE)
    return HostSettings.read(Path(path)) if path else None
