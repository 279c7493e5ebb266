"""The machines that such runs are with. Their workers never were: by the end of their ids everybody knows not to count on them."""

import hashlib
from collections import Counter
from typing import Any

from sqlalchemy import select

from backend.database import Database
from backend.models import Attempt, Run, Worker
from backend.models.runs import GENERATED
from backend.services.runs.lifecycle import ACTIVE
from engine.config import RunConfig
from longtail.schemas.attempts import Environment

NEVER = 4e9
"""When what they hold is over: nobody renews it."""
GPU_HOSTS, LAPTOP = tuple(f"gpu-{number:02d}.example" for number in range(6)), "laptop"
GONE = "old-laptop"
LABELS = {name: ["gpu", "gpu:h200"] for name in GPU_HOSTS} | {LAPTOP: ["cpu"], GONE: ["cpu"]}
"""What each host offers."""
LEAST_SLOTS = 2
LEAST_GPUS = 8
UP_SECONDS, SILENT_SECONDS = 31 * 3600.0, 5 * 3600.0


def host(config: RunConfig) -> str:
    return GPU_HOSTS[config.seed % len(GPU_HOSTS)] if config.cluster.device == "cuda" else LAPTOP


def worker_id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8] + GENERATED


ON_GPUS = frozenset(map(worker_id, GPU_HOSTS))


def fill(database: Database, now: float) -> None:
    """Adds a worker for each host, with room for the runs that it has; one of them was not seen for hours."""
    held = select(Attempt, Run.gpus).join(Run, Run.id == Attempt.run_id).where(Run.state.in_(ACTIVE), Run.id.endswith(GENERATED))
    with database.write() as session:
        carried: Counter[str] = Counter()
        given: Counter[str] = Counter()
        for attempt, asked in session.execute(held.order_by(Attempt.started_at)):
            attempt.gpus = _numbers(asked, after=given[attempt.worker_id]) if attempt.worker_id in ON_GPUS else []
            carried[attempt.worker_id] += 1
            given[attempt.worker_id] += len(attempt.gpus)
        for number, (name, labels) in enumerate(LABELS.items()):
            slots = max(LEAST_SLOTS, carried[worker_id(name)])
            gpus = {each: f"GPU-{name}-{each}" for each in _numbers(max(LEAST_GPUS, given[worker_id(name)]))} if name in GPU_HOSTS else {}
            seen_at = now - SILENT_SECONDS if name == GONE else NEVER
            times = {"started_at": now - UP_SECONDS - 60 * number, "seen_at": seen_at}
            offer = {"labels": labels, "slots": slots, "gpus": gpus}
            session.merge(Worker(id=worker_id(name), host=name, pid=1000 + number, pid_started=0, **offer, **times))


def _numbers(count: int, after: int = 0) -> list[str]:
    return [str(number) for number in range(after, after + count)]


def environment(config: RunConfig) -> dict[str, Any]:
    """What a run finds on its host."""
    on_gpus = config.cluster.device == "cuda"
    gpu = {"name": "NVIDIA H200", "memory_bytes": 150_754_820_096, "driver": "570.86.15"}
    facts = {
        "python": "3.11.9",
        "platform": "Linux-6.1.0-x86_64-with-glibc2.36",
        "host": host(config),
        "cpu": "AMD EPYC 9654" if on_gpus else "Intel Core Ultra 7",
        "cores": 96 if on_gpus else 8,
        "memory_bytes": 2**40 if on_gpus else 2**34,
        "gpus": [gpu] * config.cluster.workers if on_gpus else [],
        "longtail": {"commit": f"{config.seed:040x}", "branch": "main", "dirty": False},
        "packages": {"torch": "2.13.0", "transformers": "5.23.0", "numpy": "2.3.1"},
        "variables": {"OMP_NUM_THREADS": "1", "HF_TOKEN": "***"},
    }
    return Environment.model_validate(facts).model_dump(mode="json")
