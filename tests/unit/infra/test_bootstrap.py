import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import bootstrap
import gpu_venv
import package_installer
import project_venv
import pytest
from project_venv import SetupError

SCRIPT = Path(__file__).parents[3] / "infra" / "bootstrap.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real environment, made once."""
    venv = tmp_path_factory.mktemp("made") / ".venv"
    project_venv.create(venv)
    return venv


@pytest.fixture
def venv(made: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage, at a path of its own."""
    copy = tmp_path / ".venv"
    shutil.copytree(made, copy, symlinks=True)
    activate = copy / "bin" / "activate"
    activate.write_text(activate.read_text().replace(str(made), str(copy)))
    return copy


def test_a_fresh_environment_is_usable(made: Path, venv: Path) -> None:
    assert project_venv.usable(made)
    assert project_venv.usable(venv)


def test_a_missing_environment_is_not(tmp_path: Path) -> None:
    assert not project_venv.usable(tmp_path / ".venv")


def test_a_moved_environment_is_not(venv: Path, tmp_path: Path) -> None:
    moved = venv.rename(tmp_path / "elsewhere")
    assert not project_venv.usable(moved)


def test_an_environment_whose_python_is_gone_is_not(venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/nowhere/python3")
    assert not project_venv.usable(venv)


def test_an_environment_without_pip_is_not(venv: Path) -> None:
    shutil.rmtree(next(venv.glob("lib/python*/site-packages/pip")))
    assert not project_venv.usable(venv)


def test_a_broken_environment_is_made_anew(venv: Path) -> None:
    (venv / "pyvenv.cfg").unlink()
    assert not project_venv.usable(venv)
    project_venv.create(venv)
    assert project_venv.usable(venv)


def test_an_installation_serves_the_same_project_and_fewer_extras() -> None:
    demo, test = bootstrap.stamp(()), bootstrap.stamp(("test",))
    assert bootstrap.installed(demo, demo)
    assert bootstrap.installed(test, demo)
    assert not bootstrap.installed(demo, test)


@pytest.mark.parametrize("change", [{"pyproject.toml": "other"}, {"constraints.txt": "other"}, {"python": "3.11.0rc1"}, {"more": 1}])
def test_an_installation_of_something_else_does_not_serve(change: dict[str, object]) -> None:
    wanted = bootstrap.stamp(())
    assert not bootstrap.installed({**wanted, **change}, wanted)


def test_what_pip_says_is_shown_when_it_fails(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(project_venv, "VENV", made)
    with pytest.raises(SetupError, match=r"(?s)is not installable.*Try again"):
        package_installer.pip(str(tmp_path))


@pytest.fixture
def own_settings(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Installs into ``made``, from a user's settings that name one folder and no index."""
    (tmp_path / "wheels").mkdir()
    (tmp_path / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {tmp_path / 'wheels'}\n[install]\ntimeout = 7\n")
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "LONGTAIL_UNLOCKED"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(project_venv, "VENV", made)
    package_installer.pip_settings.cache_clear()
    package_installer.find_uv.cache_clear()


def wheel(folder: Path, name: str, version: str) -> None:
    """A package of nothing."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def version_in(venv: Path, name: str) -> str:
    return next(venv.glob(f"lib/python*/site-packages/{name}-*.dist-info")).name.removeprefix(f"{name}-").removesuffix(".dist-info")


@pytest.mark.usefixtures("own_settings")
def test_uv_is_told_what_pip_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///one file:///two")
    monkeypatch.setenv("PIP_TIMEOUT", "9")
    monkeypatch.setenv("UV_NO_INDEX", "false")
    told = package_installer.uv_environment()
    assert told["UV_FIND_LINKS"] == str(tmp_path / "wheels")
    assert told["UV_INDEX"] == "file:///one file:///two"
    assert told["UV_HTTP_TIMEOUT"] == "9", "a variable goes before a file"
    assert told["UV_NO_INDEX"] == "false", "what is said to uv goes before what is said to pip"


@pytest.mark.usefixtures("own_settings")
def test_uv_installs_what_the_constraints_name(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installer = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if installer is None:
        pytest.skip("there is no uv")
    monkeypatch.setattr(package_installer, "ROOT", tmp_path)
    monkeypatch.setattr(package_installer, "find_uv", lambda: installer)
    (tmp_path / "constraints.txt").write_text("longtail-sample==1.0\n")
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "longtail_sample", version)
    package_installer.install("longtail-sample")
    assert version_in(made, "longtail_sample") == "1.0"
    monkeypatch.setenv("LONGTAIL_UNLOCKED", "1")
    package_installer.install("--upgrade", "longtail-sample")
    assert version_in(made, "longtail_sample") == "2.0"
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("own_settings")
def test_pip_installs_where_uv_fails_and_says_so(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "uv"
    broken.write_text("#!/bin/sh\necho this mirror speaks no such protocol\nexit 2\n")
    broken.chmod(0o755)
    monkeypatch.setattr(package_installer, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "constraints.txt").write_text("longtail-other==1.0\n")
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "longtail_other", version)
    package_installer.install("longtail-other")
    assert version_in(made, "longtail_other") == "1.0"
    assert "uv failed, so pip installs instead" in (said := capsys.readouterr().out)
    assert "this mirror speaks no such protocol" in said


@pytest.mark.usefixtures("own_settings")
def test_pip_installs_where_uv_cannot_be_had_or_set_up_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert package_installer.find_uv() is None
    assert "uv cannot be installed here" in capsys.readouterr().out
    monkeypatch.setenv("PIP_ONLY_BINARY", ":all:")
    package_installer.pip_settings.cache_clear()
    package_installer.find_uv.cache_clear()
    assert package_installer.find_uv() is None
    assert "pip installs, not uv, because pip is told only-binary" in capsys.readouterr().out


def test_an_old_python_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"Python 3\.11 or newer is needed, this is 3\.8"):
        bootstrap.check_python((3, 8))


def test_other_installations_do_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/other")
    environment = project_venv.environment()
    assert "PYTHONPATH" not in environment
    assert environment["PATH"].split(os.pathsep)[0] == str(project_venv.VENV / "bin")


def test_the_first_failure_ends_a_list_of_commands(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(project_venv, "VENV", made)
    never = tmp_path / "never"
    commands = (("python", "-c", "pass"), ("python", "-c", "raise SystemExit(3)"), ("python", "-c", f"open({str(never)!r}, 'w')"))
    assert bootstrap.run_all(commands) == 3
    assert not never.exists()


def test_a_killed_command_fails_as_in_a_shell(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_venv, "VENV", made)
    assert bootstrap.run_all((("python", "-c", "import os; os.kill(os.getpid(), 15)"),)) == 143


def test_what_measuring_lacks_is_named(made: Path) -> None:
    assert gpu_venv.absent(made / "bin" / "python", ("pip", "some_thing-else")) == ["some_thing-else"]
    assert gpu_venv.absent(Path(sys.executable), gpu_venv.MEASURING) == []


def test_what_cannot_be_had_for_measuring_is_said(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_venv, "MEASURING", ("pip", "nothing-of-the-kind"))
    assert gpu_venv.beside_own_packages(made, str(tmp_path)) == made / "bin" / "python"
    assert capsys.readouterr().out == "bootstrap: nothing-of-the-kind cannot be had here\n"
    with pytest.raises(SetupError, match="no such folder"):
        gpu_venv.beside_own_packages(made, str(tmp_path / "wheels"))


def test_packages_of_an_environment_are_seen_by_the_one_it_makes_for_measuring(venv: Path, tmp_path: Path) -> None:
    (next(venv.glob("lib/python*/site-packages")) / "in_the_first.py").touch()
    make = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import gpu_venv
from pathlib import Path
gpu_venv.MEASURING = ()
print(gpu_venv.beside_own_packages(Path({str(tmp_path / "second")!r}), None))
"""
    made = subprocess.run([venv / "bin" / "python", "-c", make], capture_output=True, text=True, check=True).stdout.strip()
    assert Path(made).is_relative_to(tmp_path / "second")
    subprocess.run([made, "-c", "import in_the_first, pip"], check=True)


def test_an_unknown_command_gets_the_usage() -> None:
    result = subprocess.run([sys.executable, str(SCRIPT), "nonsense"], capture_output=True, text=True, cwd="/", check=False)
    assert result.returncode == 2
    assert "demo|test|test-all|lint|serve" in result.stdout
