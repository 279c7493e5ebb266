"""The house keeps its shape: who imports whom, how large files get, and what may not stand in any of them."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"engine", "backend", "dashboard", "migrations", "tests", "infra", ".ci"}
OURS = {"engine", "backend", "dashboard", "migrations"}
ENGINE_FOR_BACKEND = {"engine.config", "engine.events", "engine.errors", "engine.manifest", "engine.preflight"}
BACKEND_FOR_DASHBOARD = ("backend.client.", "backend.schemas.")
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
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def ours(package: str, other: str) -> set[tuple[str, str]]:
    return {(file, module) for file, module in imports(package) if module.split(".")[0] == other}


@pytest.mark.parametrize("other", ["backend", "dashboard", "migrations"])
def test_the_engine_stands_alone(other: str) -> None:
    assert ours("engine", other) == set()


def test_the_dashboard_knows_the_client_only() -> None:
    assert {fault for fault in ours("dashboard", "backend") if not f"{fault[1]}.".startswith(BACKEND_FOR_DASHBOARD)} == set()
    assert ours("dashboard", "engine") == set()


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
    modules = "backend.client, backend.api.app, backend.cli, backend.stack, backend.jobs.worker"
    code = f"import sys, {modules}; print(*({HEAVY!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_the_top_level_has_the_folders_of_the_design_only() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in tracked() if path.parent != ROOT} <= FOLDERS


def test_files_are_small() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in tracked("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > 500} == {}
    assert median(lines for name, lines in lengths.items() if name.split("/")[0] in OURS and lines) < 120


def test_nothing_is_a_utility() -> None:
    assert [path for path in tracked("*.py") if path.stem in {"utils", "util", "helpers", "misc", "common"}] == []


@pytest.mark.parametrize("pattern", [REGISTRIES, MACHINE_PATHS], ids=["registries", "machine paths"])
def test_no_file_names_this_machine_or_a_registry(pattern: re.Pattern[str]) -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="ignore") for path in tracked() if path.stat().st_size < 2**20}
    assert [(str(path.relative_to(ROOT)), found.group()) for path, text in texts.items() for found in pattern.finditer(text)] == []


def test_the_project_offers_its_extras_and_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"test", "postgres", "redis", "sglang"} <= set(project["optional-dependencies"])
    assert set(project["scripts"]) == {"longtail"}
    assert project["license"] == "Apache-2.0"
