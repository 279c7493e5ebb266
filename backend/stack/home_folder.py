"""The data folder of a stack: one stack at a time, and a home for all that its processes write."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from backend.jobs.engine.processes import start_time
from backend.settings import Settings
from backend.stack.child_process import ChildProcess, StackError, kill_sessions, sessions_below
from backend.storage.file_lock import file_lock
from backend.storage.private_home import tighten_home
from longtail.schemas.credentials import private_folder, write_private

LOCK = "stack.lock"


def end_left_behind(settings: Settings) -> None:
    """Ends what a killed stack of this home has left, which may hold the ports that the next one wants. Spares a stack that serves it."""
    if settings.server_file.is_file():  # else there may be no home yet, nor is one made before a port is known to be free
        with file_lock(settings.home / LOCK) as ours:
            if ours:
                _end_parts(settings)


def _end_parts(settings: Settings) -> None:
    for pid, started in (read_server_file(settings) or {"parts": []})["parts"]:
        if start_time(pid) == started:
            kill_sessions(sessions_below(pid))


@contextmanager
def lock_home(settings: Settings) -> Iterator[None]:
    """Holds a lock on the home that ends with this process, however that ends; StackError names the stack that has it."""
    with file_lock(private_folder(settings.home) / LOCK) as ours:
        if not ours:
            facts = read_server_file(settings)
            other = f"(process {facts['pid']}) serves {facts['url']}" if facts else "is just starting"
            raise StackError(f"another stack {other} from {settings.home}; stop it, or set LONGTAIL_HOME to another folder")
        _end_parts(settings)
        tighten_home(settings)
        try:
            yield
        finally:
            settings.server_file.unlink(missing_ok=True)


def write_server_file(settings: Settings, url: str, dashboard_url: str | None, children: Sequence[ChildProcess]) -> None:
    """Tells clients on this machine where the stack is, and a later stack what this one leaves behind if it is killed."""
    processes = [[child.pid, start_time(child.pid)] for child in children]
    facts = {"url": url, "dashboard_url": dashboard_url, "pid": os.getpid(), "parts": processes}
    write_private(settings.server_file, json.dumps(facts))


def announce_api(settings: Settings, url: str) -> None:
    """Tells clients on this machine where the API is that this process serves, unless it is part of a stack, which tells itself."""
    with file_lock(private_folder(settings.home) / LOCK, shared=True) as free:
        if free:
            write_server_file(settings, url, None, [])


def withdraw_api(settings: Settings) -> None:
    """Takes back what this process has announced, if it has."""
    facts = read_server_file(settings)
    if facts is not None and (facts["pid"], facts["parts"]) == (os.getpid(), []):
        settings.server_file.unlink(missing_ok=True)


def read_server_file(settings: Settings) -> dict[str, Any] | None:
    """What the stack of this home, or an API alone, has announced; None if there is none, or it is still starting."""
    if not settings.server_file.is_file():
        return None
    facts: dict[str, Any] = json.loads(settings.server_file.read_text(encoding="utf-8"))
    return facts


def child_environment(settings: Settings) -> dict[str, str]:
    """The caller's, with all settings, and with every folder that a library would make in the user's home inside ours."""
    values = settings.model_dump(mode="json").items()
    own = {f"LONGTAIL_{name.upper()}": value if isinstance(value, str) else json.dumps(value) for name, value in values}
    user = private_folder(settings.home / "user")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("XDG_") and name != "LONGTAIL_TOKEN"}
    folders = {
        "HOME": user,
        "HF_HOME": user / "huggingface",
        "MPLCONFIGDIR": user / "matplotlib",
        "TORCHINDUCTOR_CACHE_DIR": user / "inductor",
    }
    quiet = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
    findable = {"SPT_NOENV": "1"}  # else setproctitle, where there is one, overwrites the environment by which processes are known
    return inherited | own | {name: str(folder) for name, folder in folders.items()} | quiet | findable
