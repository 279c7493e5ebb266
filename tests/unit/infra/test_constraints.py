"""constraints.txt names every package that an installation of this project has, and those are what is installed."""

import importlib.metadata
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
OURS = {"longtail", "longtail-client"}
WITHOUT_ITS_OWN = {"sglang"}  # set-up installs it alone, without its CUDA packages


def pinned() -> list[Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def pins() -> dict[str, Version]:
    """The version of each package for this Python and machine."""
    return {canonicalize_name(each.name): Version(str(each.specifier).removeprefix("==")) for each in pinned() if applies(each)}


def named() -> Iterator[Requirement]:
    """What pyproject.toml asks for, with every extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = {**project["project"]["optional-dependencies"], **project["dependency-groups"]}
    for group in (project["project"]["dependencies"], *extras.values()):
        yield from map(Requirement, group)


def version_of(name: str) -> Version | None:
    try:
        return Version(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return None


def installed() -> dict[str, Version]:
    """The packages that are here because this project, directly or not, asks for them."""
    found: dict[str, Version] = {}
    asked = [(each.name, extra) for each in named() for extra in ("", *each.extras)]
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


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def test_they_are_names_and_versions_and_hold_on_every_kind_of_machine() -> None:
    for each in pinned():
        assert re.fullmatch(r"==[^+*]+", str(each.specifier)), each
        assert each.url is None


def test_they_name_all_that_the_project_asks_for() -> None:
    versions = pins()
    wanted = [each for each in named() if each.name not in OURS and applies(each)]
    assert len(wanted) > 60
    for each in wanted:
        assert each.specifier.contains(versions[canonicalize_name(each.name)], prereleases=True), each


def test_what_is_installed_is_what_they_name() -> None:
    if os.environ.get("LONGTAIL_UNLOCKED"):
        pytest.skip("LONGTAIL_UNLOCKED is set, so other versions may be installed")
    versions = pins()
    here = {name: Version(version.public) for name, version in installed().items()}
    assert len(here) > 150
    assert {name: (version, versions.get(name)) for name, version in here.items() if version != versions.get(name)} == {}
