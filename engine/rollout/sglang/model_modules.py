"""Which of SGLang's own modules has a model. Needs neither SGLang nor torch."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

OURS = {"llama", "llama_eagle", "llama_eagle3", "qwen2", "qwen2_eagle", "qwen3"}


def module_of(architecture: str) -> str | None:
    """The one that has the class ``architecture``; None if SGLang knows no such model, or is not installed."""
    definition = re.compile(rf"^class {re.escape(architecture)}\b", re.MULTILINE)
    return next((file.stem for file in sorted(_files()) if definition.search(file.read_text(encoding="utf-8"))), None)


def others(architecture: str | None) -> set[str]:
    """All that neither our families nor a model of ``architecture`` need."""
    needed = OURS | ({module_of(architecture)} if architecture else set())
    return {file.stem for file in _files()} - needed


def _files() -> Iterator[Path]:
    package = importlib.util.find_spec("sglang")
    for folder in (package.submodule_search_locations or ()) if package else ():
        yield from Path(folder, "srt", "models").glob("*.py")
