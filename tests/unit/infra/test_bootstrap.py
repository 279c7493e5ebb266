import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "infra" / "bootstrap.py"


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(bootstrap: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real environment, made once."""
    venv = tmp_path_factory.mktemp("made") / ".venv"
    bootstrap.create(venv)
    return venv


@pytest.fixture
def venv(made: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage, at a path of its own."""
    copy = tmp_path / ".venv"
    shutil.copytree(made, copy, symlinks=True)
    activate = copy / "bin" / "activate"
    activate.write_text(activate.read_text().replace(str(made), str(copy)))
    return copy


def test_a_fresh_environment_is_usable(bootstrap: ModuleType, made: Path, venv: Path) -> None:
    assert bootstrap.usable(made)
    assert bootstrap.usable(venv)


def test_a_missing_environment_is_not(bootstrap: ModuleType, tmp_path: Path) -> None:
    assert not bootstrap.usable(tmp_path / ".venv")


def test_a_moved_environment_is_not(bootstrap: ModuleType, venv: Path, tmp_path: Path) -> None:
    moved = venv.rename(tmp_path / "elsewhere")
    assert not bootstrap.usable(moved)


def test_an_environment_whose_python_is_gone_is_not(bootstrap: ModuleType, venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/nowhere/python3")
    assert not bootstrap.usable(venv)


def test_an_environment_without_pip_is_not(bootstrap: ModuleType, venv: Path) -> None:
    shutil.rmtree(next(venv.glob("lib/python*/site-packages/pip")))
    assert not bootstrap.usable(venv)


def test_a_broken_environment_is_made_anew(bootstrap: ModuleType, venv: Path) -> None:
    (venv / "pyvenv.cfg").unlink()
    assert not bootstrap.usable(venv)
    bootstrap.create(venv)
    assert bootstrap.usable(venv)


def test_an_installation_serves_the_same_project_and_fewer_extras(bootstrap: ModuleType) -> None:
    demo, test = bootstrap.stamp(()), bootstrap.stamp(("test",))
    assert bootstrap.installed(demo, demo)
    assert bootstrap.installed(test, demo)
    assert not bootstrap.installed(demo, test)


@pytest.mark.parametrize("change", [{"pyproject": "other"}, {"python": "3.11.0rc1"}, {"more": 1}])
def test_an_installation_of_something_else_does_not_serve(bootstrap: ModuleType, change: dict[str, object]) -> None:
    wanted = bootstrap.stamp(())
    assert not bootstrap.installed({**wanted, **change}, wanted)


def test_what_pip_says_is_shown_when_it_fails(bootstrap: ModuleType, made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bootstrap, "VENV", made)
    with pytest.raises(bootstrap.SetupError, match=r"(?s)is not installable.*Try again"):
        bootstrap.pip(str(tmp_path))


def test_an_old_python_is_refused_by_name(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(bootstrap.SetupError, match=r"Python 3\.11 or newer is needed, this is 3\.8"):
        bootstrap.check_python((3, 8))


def test_other_installations_do_not_leak_in(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/other")
    environment = bootstrap.environment()
    assert "PYTHONPATH" not in environment
    assert environment["PATH"].split(os.pathsep)[0] == str(bootstrap.VENV / "bin")


def test_the_first_failure_ends_a_list_of_commands(
    bootstrap: ModuleType, made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, "VENV", made)
    never = tmp_path / "never"
    commands = (("python", "-c", "pass"), ("python", "-c", "raise SystemExit(3)"), ("python", "-c", f"open({str(never)!r}, 'w')"))
    assert bootstrap.run_all(commands) == 3
    assert not never.exists()


def test_a_killed_command_fails_as_in_a_shell(bootstrap: ModuleType, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "VENV", made)
    assert bootstrap.run_all((("python", "-c", "import os; os.kill(os.getpid(), 15)"),)) == 143


def test_an_unknown_command_gets_the_usage() -> None:
    result = subprocess.run([sys.executable, str(SCRIPT), "nonsense"], capture_output=True, text=True, cwd="/", check=False)
    assert result.returncode == 2
    assert "demo|test|faults|lint|serve" in result.stdout
