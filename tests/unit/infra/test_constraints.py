"""constraints.txt names every package that an installation of this project has, and those are what is installed."""

import os
import re
import tomllib

import pytest
from asked_packages import OURS, ROOT, applies, installed, named
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from engine.rollout.sglang.start_errors import CHAINS_ONLY, TESTED


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


def test_of_sglang_what_was_tried_may_be_installed_and_nothing_else() -> None:
    """All but the one that drafts chains only, which nobody should choose."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    accepted = Requirement(extras["sglang"][0]).specifier
    assert [number for number in range(30) if f"0.5.{number}" in accepted] == [20, 23]
    assert set(TESTED) == {CHAINS_ONLY, "0.5.20", "0.5.23"}
