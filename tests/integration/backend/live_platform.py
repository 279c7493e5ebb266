"""A real platform on a temporary folder: uvicorn, Celery workers on the embedded broker, SQLite. Only the engine is a stand-in."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from bare_model import make_bare_model
from sqlalchemy import select

from backend.database import Database
from backend.jobs import worker as jobs_worker
from backend.migrate import upgrade
from backend.models import Attempt
from backend.settings import Settings
from backend.stack.ports import Port
from longtail import ApiError, Longtail
from longtail.schemas.runs import Run

SECONDS = 120
ENGINE = Path(__file__).with_name("standin_engine.py")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


def work(environment: dict[str, str]) -> None:
    """A worker, in a process that has everything imported already."""
    os.setsid()
    os.environ.update(environment)
    jobs_worker.main()


class Platform:
    """An API process, and workers that a test starts and kills as it likes."""

    def __init__(self, home: Path) -> None:
        self._port = Port("127.0.0.1", 0, 0)
        port = self._port.number
        command = (sys.executable, str(ENGINE))
        self.settings = Settings(home=home, port=port, engine_command=command, sweep_seconds=0.5, lease_seconds=10)
        self.model = make_bare_model(home / "model")
        self.database = Database(self.settings.database)
        upgrade(self.database)
        self.environment = os.environ | {
            "LONGTAIL_HOME": str(home),
            "LONGTAIL_PORT": str(port),
            "LONGTAIL_ENGINE_COMMAND": f'["{sys.executable}", "{ENGINE}"]',
            "LONGTAIL_SWEEP_SECONDS": "0.5",
            "LONGTAIL_LEASE_SECONDS": "10",
            "LONGTAIL_RETRY_SECONDS": "0",
        }
        self._workers: list[ForkServerProcess] = []
        self._api = subprocess.Popen([sys.executable, "-m", "backend.api"], env=self.environment, start_new_session=True)
        self.until(self.settings.token_file.is_file)
        self.client = Longtail(f"http://127.0.0.1:{port}", self.settings.token_file.read_text())

    def worker(self, step_seconds: float = 0.05, **environment: str) -> ForkServerProcess:
        """Starts a worker whose stand-in engine takes ``step_seconds`` for a step."""
        surroundings = self.environment | environment | {"STANDIN_STEP_SECONDS": str(step_seconds)}
        worker = FORKS.Process(target=work, args=(surroundings,))
        worker.start()
        self._workers.append(worker)
        return worker

    def stop_workers(self) -> None:
        for worker in self._workers:
            if worker.is_alive():
                os.kill(pid_of(worker), signal.SIGCONT)
                worker.terminate()
        for worker in self._workers:
            ended(worker)
        self._workers.clear()

    def attempts(self, run_id: str) -> list[Attempt]:
        with self.database.read() as session:
            return list(session.scalars(select(Attempt).where(Attempt.run_id == run_id).order_by(Attempt.number)))

    def submit(self, name: str = "good", steps: int = 5, needs: str | None = None, **more: object) -> Run:
        config = {"name": name, "model": {"path": str(self.model)}, "drafter": {"path": None}, "algorithm": {"steps": steps}, **more}
        return self.client.submit(config, needs=needs)

    def until_state(self, run_id: str, *states: str) -> Run:
        self.until(lambda: self.client.run(run_id).state in states)
        return self.client.run(run_id)

    def until_step(self, run_id: str, step: int) -> None:
        self.until(lambda: self.client.run(run_id).step >= step)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain; exit codes of the workers: {[each.exitcode for each in self._workers]}"
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            return bool(self.client.presets())
        except ApiError:
            return False

    def close(self) -> None:
        self.stop_workers()
        self._api.terminate()
        self._api.wait(SECONDS)
        self.client.close()
        self.database.close()
        self._port.release()


def pid_of(worker: ForkServerProcess) -> int:
    assert worker.pid is not None
    return worker.pid


def ended(worker: ForkServerProcess) -> int | None:
    """Its exit code, once it has ended; None if it does not."""
    worker.join(SECONDS)
    return worker.exitcode
