"""The house keeps its shape: who imports whom, how large files get, and what may not stand in any of them."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from statistics import median

import pytest
from asked_packages import ROOT, installed, named_without_extras
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDERS = {"engine", "backend", "dashboard", "migrations", "tests", "infra", ".ci"}
OURS = {"engine", "backend", "dashboard", "migrations"}
ENGINE_FOR_BACKEND = {
    "engine.bench.provenance",
    "engine.checkpoint.run_folder",
    "engine.checkpoint.verification",
    "engine.config",
    "engine.errors",
    "engine.events",
    "engine.interruption",
    "engine.models.library",
    "engine.planner.hardware",
    "engine.preflight",
}
CLIENT = ROOT / "backend" / "client"
MODULES_AT_A_ROOT = 6
LOOKED_FOR = {"pgserver", "playwright"}  # benchmarks leave out what these are for where they are not installed
OF_TORCH = {"triton"}  # comes with a torch for GPUs, and nothing else imports what needs it
HEAVY = {"torch", "transformers", "ray", "pandas", "streamlit", "pyarrow"}
REGISTRIES = re.compile(r"pypi\.org|pythonhosted\.org|download\.pytorch\.org|npmjs\.(org|com)|anaconda\.(org|com)|crates\.io")
MACHINE_PATHS = re.compile(r"(?<![\w.}*])/(work|root|home)/[\w.]")


def tracked(pattern: str = "*") -> list[Path]:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--", pattern]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]


def imports(package: str) -> set[tuple[str, str]]:
    """(file, module) of every absolute import below ``package``; ``from a import b`` counts as ``a.b`` where that is a module."""
    found = set()
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {(str(path.relative_to(ROOT)), alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {(str(path.relative_to(ROOT)), name if is_module(name) else node.module) for name in names}
    assert found, f"{package} imports nothing at all: the test looks in the wrong place"
    return found


def is_module(name: str) -> bool:
    path = (CLIENT if name.startswith("longtail.") else ROOT).joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def ours(package: str, other: str) -> set[tuple[str, str]]:
    return {(file, module) for file, module in imports(package) if module.split(".")[0] == other}


@pytest.mark.parametrize("other", ["backend", "dashboard", "migrations"])
def test_the_engine_stands_alone(other: str) -> None:
    assert ours("engine", other) == set()


@pytest.mark.parametrize("other", ["backend", "engine", "migrations"])
def test_the_dashboard_knows_the_client_only(other: str) -> None:
    assert ours("dashboard", other) == set()


@pytest.mark.parametrize("other", ["backend", "dashboard", "engine", "migrations"])
def test_the_client_stands_alone(other: str) -> None:
    assert ours("backend/client", other) == set()


@pytest.mark.parametrize("package", ["dashboard/analysis", "dashboard/charts", "dashboard/text"])
def test_analysis_and_charts_neither_draw_pages_nor_ask_the_api(package: str) -> None:
    pure = ("dashboard.analysis", "dashboard.charts", "dashboard.text")
    assert {fault for fault in imports(package) if fault[1].split(".")[0] in {"streamlit", "httpx"}} == set()
    assert {fault for fault in ours(package, "longtail") if not fault[1].startswith("longtail.schemas.")} == set()
    assert {fault for fault in ours(package, "dashboard") if not fault[1].startswith(pure)} == set()


def test_the_backend_knows_only_what_the_engine_promises() -> None:
    assert {fault for fault in ours("backend", "engine") if fault[1] not in ENGINE_FOR_BACKEND} == set()
    assert ours("backend", "dashboard") == set()


@pytest.mark.parametrize("package", ["backend", "dashboard"])
def test_neither_backend_nor_dashboard_computes(package: str) -> None:
    assert {fault for fault in imports(package) if fault[1].split(".")[0] in {"torch", "transformers", "ray"}} == set()


def test_speculation_decides_without_torch() -> None:
    others = {fault for fault in ours("engine/speculation", "engine") if not fault[1].startswith("engine.speculation.")}
    assert {module for _, module in others} <= {"engine.config", "engine.events"}
    assert {fault for fault in imports("engine/speculation") if fault[1].split(".")[0] in HEAVY} == set()


def test_the_backend_is_light_to_import() -> None:
    modules = "longtail, backend.api.app, backend.cli, backend.stack.local_stack, backend.jobs.worker"
    code = f"import sys, {modules}; print(*({HEAVY!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


@pytest.mark.parametrize("package", ["engine", "backend", "dashboard"])
def test_at_the_root_stands_what_every_room_uses_only(package: str) -> None:
    modules = sorted(path.stem for path in (ROOT / package).glob("*.py") if path.stem not in {"__init__", "__main__"})
    assert len(modules) <= MODULES_AT_A_ROOT, modules


def test_no_import_goes_round_in_circles() -> None:
    """Imports inside functions and those for types alone are counted, too."""
    graph: dict[str, set[str]] = {}
    for file, module in (found for package in ("engine", "backend", "dashboard") for found in imports(package)):
        file = file.removeprefix("backend/client/")
        graph.setdefault(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."), set()).add(module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_top_level_has_the_folders_of_the_design_only() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in tracked() if path.parent != ROOT} <= FOLDERS


def test_files_are_small() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in tracked("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > 500} == {}
    assert median(lines for name, lines in lengths.items() if name.split("/")[0] in OURS and lines) < 120


def test_files_of_tests_have_names_of_their_own() -> None:
    """They are in no packages: pytest imports each by its name alone."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_nothing_is_a_utility() -> None:
    assert [path for path in tracked("*.py") if path.stem in {"utils", "util", "helpers", "misc", "common"}] == []


@pytest.mark.parametrize("pattern", [REGISTRIES, MACHINE_PATHS], ids=["registries", "machine paths"])
def test_no_file_names_this_machine_or_a_registry(pattern: re.Pattern[str]) -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="ignore") for path in tracked() if path.stat().st_size < 2**20}
    assert [(str(path.relative_to(ROOT)), found.group()) for path, text in texts.items() for found in pattern.finditer(text)] == []


def test_what_is_imported_is_a_dependency_or_that_of_an_extra() -> None:
    """Not of the extra of the tests alone, nor of what SGLang imports."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    optional = {Requirement(each).name for name, group in extras.items() if name not in {"test", "sglang-imports"} for each in group}
    asked = {*installed(named_without_extras()), *optional, *LOOKED_FOR, *OF_TORCH}
    packages = packages_distributions()
    roots = {module.split(".")[0] for folder in OURS for _, module in imports(folder)} - sys.stdlib_module_names - OURS - {"longtail"}
    assert len(roots) > 30
    assert {root for root in roots if asked.isdisjoint(map(canonicalize_name, packages.get(root, [root])))} == set()


def test_the_project_offers_its_extras_and_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"test", "postgres", "redis", "sglang"} <= set(project["optional-dependencies"])
    assert set(project["scripts"]) == {"longtail"}
    assert project["license"] == "Apache-2.0"
