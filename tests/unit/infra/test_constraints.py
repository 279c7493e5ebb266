"""constraints.txt names every package that an installation of this project has, and those are what is installed."""

import os
import re

import pytest
from asked_packages import OURS, ROOT, applies, installed, named
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


def pinned() -> list[Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def pins() -> dict[str, Version]:
    """The version of each package for this Python and machine."""
    return {canonicalize_name(each.name): Version(str(each.specifier).removeprefix("==")) for each in pinned() if applies(each)}


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
    here = {name: Version(version.public) for name, version in installed(named()).items()}
    assert len(here) > 150
    assert {name: (version, versions.get(name)) for name, version in here.items() if version != versions.get(name)} == {}
