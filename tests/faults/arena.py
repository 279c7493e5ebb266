"""A real platform on a temporary folder whose every process can be killed, frozen and lied to."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, get_args

import history
from bare_model import make_bare_model
from kombu.exceptions import ChannelError, OperationalError
from redis_for_tests import Redis
from sqlalchemy import select

from backend.database import Database
from backend.jobs.celery import make_celery, notify_workers
from backend.jobs.engine.processes import processes_of_attempt, start_time
from backend.models import Attempt, Run
from backend.services.identity.first_admin import ensure_admin
from backend.services.webhooks import subscriptions
from backend.settings import Settings
from backend.stack.ports import Port
from longtail import ApiError, Longtail
from longtail.schemas.runs import TERMINAL_STATES
from longtail.schemas.webhooks import Event

ENGINE = Path(__file__).with_name("fault_engine.py")
LEASE = 3.0
PACE = {"SWEEP": 0.2, "POLL": 0.05, "LEASE": LEASE, "GRACE": 0.5, "HANDOVER": 1.0, "RETRY": 0.0}
PATIENT_LEASE = 10.0
PATIENT = {"LONGTAIL_LEASE_SECONDS": str(PATIENT_LEASE)}
"""Of a worker whose lease is not to end, though a busy machine lets it stand for a while."""
SECONDS = 120.0
"""How long anything is waited for: a busy machine is no failure."""
NOWHERE = "https://127.0.0.1:9"
ENGINE_NAMES = ("run", "run", "mid-checkpoint", "mid-event", "between-artifact-and-row")
T = TypeVar("T")


class Zygote:
    """Gives processes that need not import anything any more."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("zygote.py")
        self._process = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fork(self, kind: str, environment: dict[str, str], log: Path) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"kind": kind, "environment": environment, "log": str(log)}), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Arena:
    """API and workers on an empty database at ``url``, a SQLite file by default. Their broker is a folder, or ``redis``."""

    def __init__(self, zygote: Zygote, home: Path, make_tables: Callable[[str], None], url: str = "", redis: Redis | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._port = Port("127.0.0.1", 0, 0)
        port = self._port.number
        command = (sys.executable, "-I", "-S", str(ENGINE))
        paces: dict[str, Any] = {f"{name.lower()}_seconds": seconds for name, seconds in PACE.items()}
        self.redis = redis
        addresses: dict[str, Any] = {"database_url": url, "broker_url": redis.url if redis else ""}
        self.settings = Settings(home=home, port=port, engine_command=command, **addresses, **paces)
        self.environment = {f"LONGTAIL_{name.upper()}": _text(value) for name, value in self.settings.model_dump(mode="json").items()}
        self.environment["FAULT_CLOCK"] = str(home / "clock")
        (home / "clock").write_text("0")
        self.model = make_bare_model(home / "model")
        self.database = Database(self.settings.database)
        make_tables(self.settings.database)
        history.watch(self.database)
        with self.database.write() as session:
            subscriptions.add(session, NOWHERE, get_args(Event))
        self._zygote = zygote
        self.workers: list[int] = []
        self.api = 0
        ensure_admin(self.database, self.settings)
        self.client = Longtail(f"http://127.0.0.1:{port}", self.settings.token_file.read_text(), timeout=SECONDS)
        self.accepted: list[str] = []
        self.leaving: list[int] = []
        self.points = ["after-claim", "before-the-engine-is-known", "mid-ingest", "before-settling", "mid-settling", "after-settling"]

    def start_api(self) -> None:
        self.api = self._zygote.fork("api", self.environment, self.settings.home / "api.log")

    def start_worker(self, point: str = "", **environment: str) -> int:
        fault = {"FAULT_POINT": point} if point else {}
        worker = self._zygote.fork("worker", self.environment | fault | environment, self.settings.home / "worker.log")
        self.workers.append(worker)
        return worker

    def submit(self, name: str = "run", steps: int = 6) -> str:
        """Like a user who repeats until there is an answer, with a key."""
        key = os.urandom(8).hex()
        config = {"name": name, "model": {"path": str(self.model)}, "drafter": {"path": None}, "algorithm": {"steps": steps}}
        run = self.insist(lambda: self.client.submit(config, idempotency_key=key))
        self.accepted.append(run.id)
        return run.id

    def insist(self, request: Callable[[], T]) -> T:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return request()
            except ApiError as error:
                if error.status not in (0, 500) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: start_time(pid) is None)

    def kill_worker(self, pid: int) -> None:
        self.workers.remove(pid)
        self.kill(pid)

    def kill_all(self) -> None:
        for worker in [*self.workers, *self.leaving]:
            self.kill(worker)
        self.workers.clear()
        self.leaving.clear()
        if self.api:
            self.kill(self.api)

    def engines(self) -> list[int]:
        """Every process of every attempt."""
        with self.database.read() as session:
            attempts = session.execute(select(Attempt.run_id, Attempt.number)).all()
        return sorted(pid for run_id, number in attempts for pid in processes_of_attempt(run_id, number, None))

    @contextmanager
    def frozen(self, pid: int) -> Iterator[None]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def lock_database(self, seconds: float) -> None:
        """Nobody can write meanwhile."""
        if self.settings.database_url.startswith("postgresql"):
            with self.database.writer.begin() as connection:
                connection.exec_driver_sql("LOCK TABLE runs IN EXCLUSIVE MODE")
                time.sleep(seconds)
            return
        file = sqlite3.connect(self.settings.home / "longtail.db", timeout=SECONDS, isolation_level=None)
        file.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        file.execute("ROLLBACK")
        file.close()

    def delete_broker(self) -> None:
        if self.redis:
            self.redis.kill()
            self.redis.start()
        shutil.rmtree(self.settings.broker_folder, ignore_errors=True)

    def send_needless_messages(self) -> None:
        app = make_celery(self.settings)
        for _ in self.accepted * 2:
            with suppress(OSError, ChannelError, OperationalError):  # the broker may be away at this very moment
                notify_workers(app)
        app.close()

    def set_clock(self, seconds: float) -> None:
        aside = self.settings.home / "clock.new"
        aside.write_text(str(seconds))
        aside.replace(self.settings.home / "clock")

    def state(self, run_id: str) -> str:
        with self.database.read() as session:
            return session.get_one(Run, run_id).state

    def attempts(self, run_id: str) -> list[str]:
        with self.database.read() as session:
            return list(session.scalars(select(Attempt.state).where(Attempt.run_id == run_id).order_by(Attempt.number)))

    def settle(self, seconds: float = SECONDS) -> None:
        """Everything is well again: all runs come to their end."""
        self.set_clock(0)
        self.until(self._settled, seconds)

    def _settled(self) -> bool:
        with self.database.read() as session:
            states = session.execute(select(Run.id, Run.state)).all()
        for run_id, state in states:
            if state == "paused":  # perhaps only now, as it was asked to before
                self.insist(lambda run_id=run_id: self.client.resume(run_id))  # type: ignore[misc]
        return all(state in TERMINAL_STATES for _, state in states)

    @staticmethod
    def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.03)

    def close(self) -> None:
        self.kill_all()
        self.client.close()
        self.database.close()
        self._port.release()


def in_background(action: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def some(chance: random.Random, things: list[int]) -> int | None:
    return chance.choice(things) if things else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
