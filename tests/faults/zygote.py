"""Forks API and worker processes that have everything imported already, so that a schedule may kill dozens of them.

Orders are JSON lines on stdin: {"kind": "api" | "worker", "environment": {...}, "log": path}; the answer is the child's process id.
Of the environment, FAULT_POINT names where a worker kills itself, once, FAULT_CLOCK a file with seconds that its clock is wrong by,
FAULT_MACHINE the name of the machine that it believes to be on, and FAULT_WORKER_BYTES how large its files may get (a full disk).
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import uvicorn

import backend.jobs.engine.supervisor
import backend.jobs.maintenance.lost_attempts
import backend.jobs.worker
import backend.services.telemetry.event_ingest
from backend.api.app import create_app
from backend.jobs.engine.supervisor import Supervisor
from backend.settings import Settings

POINTS: dict[str, Callable[[Callable[[], NoReturn]], None]] = {
    "after-claim": lambda die: _before(Supervisor, "run", die),
    "before-the-engine-is-known": lambda die: _before(Supervisor, "_introduce", die),
    "mid-ingest": lambda die: _before(backend.services.telemetry.event_ingest.EventRowWriter, "close", die),
    "before-settling": lambda die: _before(Supervisor, "_settle", die),
    "mid-settling": lambda die: _before(backend.jobs.engine.supervisor, "settle", die, after=True),
    "after-settling": lambda die: _before(Supervisor, "run", die, after=True),
}


def _before(owner: Any, name: str, die: Callable[[], NoReturn], after: bool = False) -> None:
    original = getattr(owner, name)

    def fatal(*arguments: Any, **options: Any) -> NoReturn:
        if after:
            original(*arguments, **options)
        die()

    setattr(owner, name, fatal)


def arm(point: str, once: Path) -> None:
    def die() -> NoReturn:
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    if not once.exists():
        POINTS[point](die)


def bend_the_clock(offset: Path) -> None:
    true = time.time
    time.time = lambda: true() + float(offset.read_text() or 0)


def move_to(name: str) -> None:
    """This process is on another machine, whose processes cannot be seen or killed from here, nor these from there."""
    backend.jobs.worker.machine = backend.jobs.maintenance.lost_attempts.machine = lambda: name  # type: ignore[attr-defined]
    backend.jobs.maintenance.lost_attempts.kill_all = lambda *_: None  # type: ignore[attr-defined]


def become(kind: str, environment: dict[str, str], log: str) -> NoReturn:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, file), (2, file)):
        os.dup2(source, number)
    os.environ.update(environment)
    code = 1
    try:
        if point := environment.get("FAULT_POINT"):
            arm(point, Path(environment["LONGTAIL_HOME"]) / f"died-{point}")
        if name := environment.get("FAULT_MACHINE"):
            move_to(name)
        if limit := environment.get("FAULT_WORKER_BYTES"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        if clock := environment.get("FAULT_CLOCK"):
            bend_the_clock(Path(clock))
        if kind == "worker":
            backend.jobs.worker.main()
        else:
            uvicorn.run(create_app(), port=Settings().port, access_log=False)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            become(**order)
        print(child, flush=True)


if __name__ == "__main__":
    main()
