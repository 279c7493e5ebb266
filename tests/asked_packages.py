"""The packages that this project asks for, and what they ask for in turn, as they are installed here."""

import importlib.metadata
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
OURS = {"longtail", "longtail-client"}
WITHOUT_ITS_OWN = {"sglang"}  # set-up installs it alone, without its CUDA packages
LOCKED_THERE = {"speculators", "hs-connectors"}  # pyproject.toml names their version: what they ask for would not go with the rest


def named() -> Iterator[Requirement]:
    """What pyproject.toml asks for, with every extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = {**project["project"]["optional-dependencies"], **project["dependency-groups"]}
    for group in (project["project"]["dependencies"], *extras.values()):
        yield from (each for each in map(Requirement, group) if each.name not in LOCKED_THERE)


def named_without_extras() -> Iterator[Requirement]:
    """What an installation of the product and its client gets."""
    for project in (ROOT, ROOT / "backend" / "client"):
        yield from map(Requirement, tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"])


def installed(roots: Iterable[Requirement]) -> dict[str, Version]:
    """The packages that are here because ``roots``, directly or not, ask for them."""
    found: dict[str, Version] = {}
    asked = [(each.name, extra) for each in roots for extra in ("", *each.extras)]
    seen = set()
    while asked:
        name, extra = asked.pop()
        name = canonicalize_name(name)
        version = version_of(name)
        if (name, extra) in seen or version is None or name in OURS:
            continue
        seen.add((name, extra))
        found[name] = version
        needed = () if name in WITHOUT_ITS_OWN else map(Requirement, importlib.metadata.requires(name) or ())
        asked += [(each.name, more) for each in needed if applies(each, extra) for more in ("", *each.extras)]
    return found


def version_of(name: str) -> Version | None:
    try:
        return Version(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return None


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def link_packages(names: Iterable[str], folder: Path) -> None:
    """Fills ``folder`` so that a Python whose only path it is has these packages and no others."""
    folder.mkdir()
    for name in names:
        package = importlib.metadata.distribution(name)
        for part in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (folder / part).exists():
                (folder / part).symlink_to(Path(str(package.locate_file(part))))
