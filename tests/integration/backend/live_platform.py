"""A real platform on a temporary folder: uvicorn, Celery workers on the embedded broker, SQLite. Only the engine is a stand-in."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bare_model import make_bare_model

from backend.client import ApiError, Longtail
from backend.database import Database
from backend.migrate import upgrade
from backend.schemas import Run
from backend.settings import Settings

ENGINE = Path(__file__).with_name("standin_engine.py")


class Platform:
    """An API process, and workers that a test starts and kills as it likes."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = (sys.executable, str(ENGINE))
        self.settings = Settings(home=home, port=port, engine_command=command, sweep_seconds=0.5, lease_seconds=6)
        self.model = make_bare_model(home / "model")
        self.database = Database(self.settings.database)
        upgrade(self.database)
        self.environment = os.environ | {
            "LONGTAIL_HOME": str(home),
            "LONGTAIL_ENGINE_COMMAND": f'["{sys.executable}", "{ENGINE}"]',
            "LONGTAIL_SWEEP_SECONDS": "0.5",
            "LONGTAIL_LEASE_SECONDS": "6",
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self.start("-m", "uvicorn", "backend.api.app:create_app", "--factory", "--port", str(port), "--no-access-log")
        self.client = Longtail(f"http://127.0.0.1:{port}")
        self.until(self._answers)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, *arguments], env=self.environment | environment, start_new_session=True)
        self._processes.append(process)
        return process

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        return self.start("-m", "backend.jobs.worker", **environment)

    def submit(self, name: str = "good", steps: int = 5) -> Run:
        return self.client.submit(
            {"name": name, "model": {"path": str(self.model)}, "drafter": {"path": None}, "algorithm": {"steps": steps}}
        )

    def until_state(self, run_id: str, *states: str, seconds: float = 60) -> Run:
        self.until(lambda: self.client.run(run_id).state in states, seconds)
        return self.client.run(run_id)

    @staticmethod
    def until(condition: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            process.wait(20)
        self.client.close()
        self.database.close()

    def _answers(self) -> bool:
        try:
            return bool(self.client.presets())
        except ApiError:
            return False
