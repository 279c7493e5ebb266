import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.jobs.engine.processes import start_time
from backend.settings import Settings
from backend.stack.child_process import ChildProcess, StackError
from backend.stack.home_folder import child_environment, end_left_behind, lock_home, read_server_file, write_server_file
from backend.stack.local_stack import Stack
from backend.stack.ports import Port


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


KILLED = """if True:
    import os, sys, time
    from pathlib import Path
    from backend.stack.home_folder import lock_home, write_server_file
    from backend.stack.child_process import ChildProcess
    from backend.settings import Settings
    settings = Settings(home=Path(sys.argv[1]))
    with lock_home(settings):
        listens = "import socket, time; held = socket.create_server(('127.0.0.1', int(sys.argv[1]))); open('up', 'w'); time.sleep(60)"
        command = (sys.executable, "-c", f"import os, sys; os.chdir({str(settings.home)!r}); {listens}", sys.argv[2])
        part = ChildProcess("thing", command, os.environ, settings.home / "log", lambda: True)
        part.start()
        while not (settings.home / "up").exists():
            time.sleep(0.01)
        write_server_file(settings, "http://127.0.0.1:1", None, [part])
        os.kill(os.getpid(), 9)
"""
"""A stack that leaves a part, which listens at a port."""


def left_by_killed(settings: Settings, port: int = 0) -> int:
    """The id of the part's process."""
    assert subprocess.run([sys.executable, "-c", KILLED, str(settings.home), str(port)], check=False).returncode == -9
    left = read_server_file(settings)
    assert left is not None
    pid = int(left["parts"][0][0])
    assert start_time(pid) is not None
    return pid


def test_the_lock_ends_with_a_killed_process_and_what_it_left_is_swept(settings: Settings) -> None:
    pid = left_by_killed(settings)
    with lock_home(settings):
        assert start_time(pid) is None


def test_the_same_command_gets_the_ports_that_its_killed_stack_has_left_taken(settings: Settings) -> None:
    free = Port("127.0.0.1", 0, 0)
    free.release()
    pid = left_by_killed(settings, free.number)
    stack = Stack(settings.home, port=free.number, dashboard=False)
    assert (stack.settings.port, start_time(pid)) == (free.number, None)


def test_a_stack_that_serves_the_home_keeps_its_ports(settings: Settings) -> None:
    part = asleep(settings)
    with lock_home(settings):
        part.start()
        write_server_file(settings, "http://127.0.0.1:1234", None, [part])
        end_left_behind(settings)
        assert part.exit_code is None
        part.stop()


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
