"""Our plugin, for an SGLang on a machine where Longtail is not installed: ``make gpu`` runs from a checkout."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from engine.bench.provenance import ROOT

METADATA = "Metadata-Version: 2.1\nName: longtail-plugin\nVersion: 1.0\n"
ENTRY_POINT = "[sglang.srt.plugins]\nlongtail = engine.rollout.sglang.plugin:register\n"
"""As pyproject.toml has it."""


@contextmanager
def discoverable(folder: Path) -> Iterator[None]:
    """SGLang's processes that are started inside find the plugin: in ``folder``, which is made, as if it were a package's."""
    package = folder / "longtail_plugin-1.0.dist-info"
    package.mkdir(parents=True, exist_ok=True)
    (package / "METADATA").write_text(METADATA, encoding="utf-8")
    (package / "entry_points.txt").write_text(ENTRY_POINT, encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(folder), str(ROOT), os.environ.get("PYTHONPATH")]))
    with patch.dict(os.environ, {"PYTHONPATH": path}):
        yield
