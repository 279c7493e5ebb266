"""``pip install longtail-client``: wheels of client and server, and the client alone in an empty environment."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from sizes import only_with_all

ROOT = Path(__file__).parents[2]
MOST_PACKAGES = 15


def pip(python: str | Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


def wheel_of(project: Path, folder: Path) -> Path:
    """Built aside, as a build leaves its traces in the project."""
    pip(sys.executable, "wheel", "--no-deps", "--constraint", str(ROOT / "constraints.txt"), "--wheel-dir", str(folder), str(project))
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files alone."""
    folder = tmp_path_factory.mktemp("sources")
    listed = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("tests/"):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
    return folder


@only_with_all
def test_the_client_works_alone(sources: Path, tmp_path: Path) -> None:
    wheel = wheel_of(sources / "backend" / "client", tmp_path)
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    pip(python, "install", "--constraint", str(ROOT / "constraints.txt"), str(wheel))
    listed = "from importlib.metadata import distributions; print(*(each.name for each in distributions()))"
    installed = subprocess.run([python, "-c", listed], capture_output=True, text=True, check=True, timeout=120).stdout.split()
    assert "longtail-client" in installed
    assert len(installed) <= MOST_PACKAGES, installed
    code = "from longtail import ApiError, Longtail; import longtail.schemas.runs; print(Longtail('http://127.0.0.1:9', 'none').base_url)"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LONGTAIL"))}
    said = subprocess.run([python, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True, timeout=120).stdout
    assert said.strip() == "http://127.0.0.1:9"


@only_with_all
def test_the_server_asks_for_the_client_and_has_no_copy_of_it(sources: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_of(sources, tmp_path)) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    assert "Requires-Dist: longtail-client==" in text
    assert {name.split("/")[0] for name in names if name.endswith(".py")} == {"backend", "dashboard", "engine", "migrations"}
    assert not [name for name in names if name.startswith("backend/client")]
    assert {"engine/models/assets/tiny/model.safetensors", "dashboard/assets/login.html", "backend/api/app.py"} <= set(names)
