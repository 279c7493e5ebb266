import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.jobs.engine.processes import start_time
from backend.settings import Settings
from backend.stack.child_process import ChildProcess, StackError
from backend.stack.home_folder import child_environment, lock_home, read_server_file, write_server_file


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def asleep(settings: Settings) -> ChildProcess:
    code = "import time; time.sleep(60)"
    return ChildProcess("thing", (sys.executable, "-c", code), os.environ, settings.home / "thing.log", lambda: True)


def test_a_home_has_one_stack(settings: Settings) -> None:
    with lock_home(settings):
        write_server_file(settings, "http://127.0.0.1:1234", None, [])
        with (
            pytest.raises(StackError, match=rf"process {os.getpid()}\) serves http://127.0.0.1:1234 from .*LONGTAIL_HOME"),
            lock_home(settings),
        ):
            pytest.fail("two stacks in one home")
    assert read_server_file(settings) is None
    with lock_home(settings):
        pass


def test_a_stack_that_is_starting_holds_the_home_too(settings: Settings) -> None:
    with lock_home(settings), pytest.raises(StackError, match="just starting"), lock_home(settings):
        pytest.fail("two stacks in one home")


def test_the_lock_ends_with_a_killed_process_and_what_it_left_is_swept(settings: Settings) -> None:
    code = """if True:
        import os, sys, time
        from pathlib import Path
        from backend.stack.home_folder import lock_home, write_server_file
        from backend.stack.child_process import ChildProcess
        from backend.settings import Settings
        settings = Settings(home=Path(sys.argv[1]))
        with lock_home(settings):
            command = (sys.executable, "-c", "import time; time.sleep(60)")
            part = ChildProcess("thing", command, os.environ, settings.home / "log", lambda: True)
            part.start()
            write_server_file(settings, "http://127.0.0.1:1", None, [part])
            os.kill(os.getpid(), 9)
    """
    assert subprocess.run([sys.executable, "-c", code, str(settings.home)], check=False).returncode == -9
    left = read_server_file(settings)
    assert left is not None
    pid = left["parts"][0][0]
    assert start_time(pid) is not None
    with lock_home(settings):
        assert start_time(pid) is None


def test_a_later_process_with_a_noted_id_is_spared(settings: Settings) -> None:
    part = asleep(settings)
    part.start()
    write_server_file(settings, "http://127.0.0.1:1", None, [part])
    noted = settings.server_file.read_text()
    assert part.process is not None
    pid, started = (read_server_file(settings) or {})["parts"][0]
    settings.server_file.write_text(noted.replace(f"[{pid}, {started}]", f"[{pid}, {started - 1}]"))
    with lock_home(settings):
        assert part.exit_code is None
    part.stop()


def test_parts_get_the_settings_and_write_nowhere_else(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    given = settings.model_copy(update={"engine_command": ("a", "b c"), "lease_seconds": 3.5, "port": 1})
    variables = child_environment(given)
    assert "XDG_CACHE_HOME" not in variables
    assert variables["HF_HUB_OFFLINE"] == "1"
    for name in ("HOME", "HF_HOME", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR"):
        assert Path(variables[name]).is_relative_to(settings.home)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Settings() == given
