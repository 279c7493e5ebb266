"""What the platform's benchmarks share: the API as a process of its own, with its usual limits, on an empty database."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from backend.database import Database
from backend.migrate import upgrade
from backend.settings import Settings
from backend.stack.child_process import ChildProcess, answers
from backend.stack.home_folder import child_environment
from backend.stack.ports import Port
from longtail import Longtail

START_SECONDS = 60.0


@dataclass
class Server:
    """``start_s``: from its start until it answered."""

    url: str
    database: Database
    settings: Settings
    part: ChildProcess
    start_s: float = 0.0

    def start(self) -> None:
        began = time.monotonic()
        self.part.start()
        self.part.wait_until_healthy(began + START_SECONDS)
        self.start_s = time.monotonic() - began

    def kill(self) -> None:
        """As a crash would."""
        assert self.part.process is not None
        self.part.process.kill()
        self.part.process.wait()

    def client(self) -> Longtail:
        """As the admin."""
        return Longtail(self.url, self.settings.token_file.read_text(encoding="utf-8"))


@contextmanager
def served(database_url: str = "") -> Iterator[Server]:
    """On SQLite in a temporary home if no URL is given."""
    with tempfile.TemporaryDirectory(prefix="longtail-bench-") as home:
        port = Port("127.0.0.1", 0, 0)
        settings = Settings(home=Path(home), database_url=database_url, port=port.number)
        url = f"http://127.0.0.1:{port.number}"
        database = Database(settings.database)
        upgrade(database)
        command = (sys.executable, "-m", "backend.api")
        part = ChildProcess("api", command, child_environment(settings), settings.home / "api.log", answers(f"{url}/healthz"))
        server = Server(url, database, settings, part)
        try:
            server.start()
            yield server
        finally:
            part.stop()
            database.close()
            port.release()


def missing_postgres() -> str | None:
    """Why PostgreSQL cannot be measured here."""
    missing = [name for name in ("pgserver", "psycopg") if find_spec(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database of a PostgreSQL server with its usual settings, as pip brings it."""
    from pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="longtail-pg-", dir="/tmp") as folder:  # its socket's path has to be short
        Path(folder).chmod(0o755)  # as root, the server runs as a user of its own
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        finally:
            server.cleanup()


def on_each_database(measure: Callable[[Server], dict[str, Any]]) -> dict[str, Any]:
    """What ``measure`` finds of a server on SQLite, and (if it is there) of one on PostgreSQL, with ``postgres_`` before each name."""
    with served() as server:
        found = measure(server)
    found["postgres_missing"] = missing_postgres()
    if not found["postgres_missing"]:
        with postgres() as url, served(url) as server:
            found |= {f"postgres_{name}": value for name, value in measure(server).items()}
    return found


def quantiles(name: str, answers: Iterator[Any]) -> dict[str, float]:
    """Milliseconds until each of the answers came, but for the first."""
    next(answers)
    taken, began = [], time.monotonic()
    for _ in answers:
        taken.append(1000 * (time.monotonic() - began))
        began = time.monotonic()
    return {f"{name}_p50_ms": round(quantile(taken, 0.5), 1), f"{name}_p99_ms": round(quantile(taken, 0.99), 1)}


def quantile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def machine() -> dict[str, float]:
    """How much of the machine others use: figures taken on a busy one are worth less."""
    return {"cores": os.cpu_count() or 0, "load_before": round(os.getloadavg()[0], 2)}
