"""``longtail bench ingest``: scripts that send batches of 100 points, each as fast as it can, to one API process.

Every writer is a process with a token of its own, every request is authenticated. Then the API is killed and started again, and each
point that it had acknowledged has to be there.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import psutil
from sqlalchemy import select

from backend.bench.server import Server, machine, missing_postgres, postgres, quantile, served
from backend.database import Database
from backend.models import Metric

WRITERS = 8
STEPS = 10
KEYS = tuple(f"metric/{number}" for number in range(10))
SECONDS, QUICK_SECONDS = 12.0, 3.0
FIGURES = ("points_s", "p50_ms", "p99_ms", "api_cores", "writers_cores", "lost")


def run(quick: bool) -> dict[str, Any]:
    """Points a second and latency of a batch, on SQLite and (null if it is missing) on PostgreSQL; ``lost`` counts both. ``cores`` tell how
    much of the machine the API has, and how much the writers take from it."""
    seconds = QUICK_SECONDS if quick else SECONDS
    result: dict[str, Any] = machine() | {"writers": WRITERS, "batch_points": STEPS * len(KEYS), "seconds": seconds}
    result |= _named("sqlite", measure("", seconds))
    result["postgres_missing"] = missing_postgres()
    with ExitStack() as stack:
        url = None if result["postgres_missing"] else stack.enter_context(postgres())
        found = measure(url, seconds) if url else dict.fromkeys(FIGURES)
        result |= _named("postgres", found)
    return result | {"lost": sum(result[f"{name}_lost"] or 0 for name in ("sqlite", "postgres"))}


def value(key: str, step: int) -> float:
    """What a writer says at this step."""
    return step / 7 + len(key)


def measure(database_url: str, seconds: float, writers: int = WRITERS) -> dict[str, Any]:
    with served(database_url) as server:
        idle = busy_seconds(server.part.pid)
        told = _write(server, seconds, writers)
        busy = busy_seconds(server.part.pid) - idle
        server.kill()
        server.start()
        lost = sum(_lost(server.database, one["run_id"], len(one["latencies"])) for one in told)
    latencies = [latency for one in told for latency in one["latencies"]]
    return {
        "points_s": round(len(latencies) * STEPS * len(KEYS) / seconds),
        "p50_ms": round(1000 * quantile(latencies, 0.5), 1),
        "p99_ms": round(1000 * quantile(latencies, 0.99), 1),
        "api_cores": round(busy / seconds, 2),
        "writers_cores": round(sum(one["busy"] for one in told) / seconds, 2),
        "lost": lost,
    }


def busy_seconds(pid: int) -> float:
    """Processor time that the process has had."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _write(server: Server, seconds: float, writers: int) -> list[dict[str, Any]]:
    with server.client() as client:
        tokens = [client.create_token(f"writer {number}").token for number in range(writers)]
    command = [sys.executable, "-m", "backend.bench.writer", str(seconds)]
    with ExitStack() as stack:
        started = [stack.enter_context(_start(command, server.url, token)) for token in tokens]
        for writer in started:
            assert writer.stdout is not None
            writer.stdout.readline()
        for writer in started:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        return [json.loads(writer.communicate()[0]) for writer in started]


def _start(command: list[str], url: str, token: str) -> subprocess.Popen[str]:
    surroundings = os.environ | {"LONGTAIL_URL": url, "LONGTAIL_TOKEN": token}
    return subprocess.Popen(command, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _lost(database: Database, run_id: str, batches: int) -> int:
    """Acknowledged points that are not there, or not with their value."""
    with database.read() as session:
        found = session.execute(select(Metric.key, Metric.step, Metric.value).where(Metric.run_id == run_id))
        held = {(key, step): number for key, step, number in found}
    sent = {(key, step): value(key, step) for key in KEYS for step in range(batches * STEPS)}
    return sum(held.get(point) != number for point, number in sent.items())


def _named(database: str, found: dict[str, Any]) -> dict[str, Any]:
    return {f"{database}_{name}": value for name, value in found.items()}
