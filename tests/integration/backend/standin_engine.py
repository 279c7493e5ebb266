"""Stands in for the engine where a test is about the job side: same command line, real events, no model.

The run's name says how it behaves: "user-error", "crash", "silent", "deaf" (ignores SIGTERM and has detached children),
"worker-lost" (once, after its first checkpoint), "own-gpu" (fails if it shares its GPU), else it works.
"""

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from engine.checkpoint.verification import MANIFEST, SCHEMA, Manifest, listed, step_of
from engine.config import load
from engine.events import (
    ArtifactSaved,
    CheckpointSaved,
    EventWriter,
    Log,
    RolloutFinished,
    RunFinished,
    RunStarted,
    RunStopped,
    StepFinished,
)

SECONDS_PER_STEP = float(os.environ.get("STANDIN_STEP_SECONDS", "0.05"))
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("command", choices=["run"])
    arguments.add_argument("config", type=Path)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--resume", action="store_true")
    arguments.add_argument("--take-over", action="store_true")
    given = arguments.parse_args()
    config = load(given.config)
    events = EventWriter(given.out / "events.jsonl", take_over=given.take_over)
    checkpoints = given.out / "checkpoints"
    first = max(map(step_of, listed(checkpoints)), default=-1) + 1 if given.resume else 0
    if config.name == "user-error":
        events.write(Log(level="error", code="data", message="the dataset is empty"))
        return 2
    if config.name == "silent":
        return 0
    if config.name == "deaf":
        become_hard_to_kill(given.out)
    if "own-gpu" in config.name:
        hold_gpu(given.out.parent)
    steps = config.algorithm.steps
    events.write(RunStarted(first_step=first, steps=steps, workers=2, model_parameters=1, device="cpu", packages={}))
    if config.name == "crash":
        raise RuntimeError("out of luck")
    if config.name == "worker-lost" and first == 0:
        save(checkpoints, 0)
        events.write(Log(level="error", code="worker_lost", message="worker 1 died"))
        return 75
    for step in range(first, steps):
        time.sleep(SECONDS_PER_STEP)
        events.write(RolloutFinished(step=step, lengths=[10, 20, 30, 400], truncated=1))
        metrics = {"reward_mean": step / steps, "accept_length": 2.5, "idle_seconds": 2.0, "trained_seconds": 1.0}
        events.write(StepFinished(step=step, seconds=2.0, phases={"rollout": 1.5, "update": 0.5}, metrics=metrics))
        save(checkpoints, step)
        events.write(CheckpointSaved(step=step, path=f"checkpoints/step_{step:06d}", seconds=0.0))
        if (given.out / "stop").exists() and step < steps - 1:
            events.write(RunStopped(step=step))
            (given.out / "stop").unlink(missing_ok=True)
            return 75
    save_artifact(given.out, events)
    events.write(RunFinished(steps=steps))
    return 0


def hold_gpu(runs: Path) -> None:
    """Until this process ends the GPU, of which it must see one, is locked: two at once cannot have it."""
    lock = os.open(runs / f"gpu-{int(os.environ['CUDA_VISIBLE_DEVICES'])}", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def save(checkpoints: Path, step: int) -> None:
    """One without files, which is there at once or not at all: it may be killed at any moment."""
    place, aside = checkpoints / f"step_{step:06d}", checkpoints / f".{step}.{os.getpid()}"
    aside.mkdir(parents=True)
    (aside / MANIFEST).write_text(json.dumps(asdict(Manifest(SCHEMA, step, {}))))
    if not place.exists():
        aside.rename(place)


def become_hard_to_kill(folder: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    same_session = subprocess.Popen(SLEEP, env={}, process_group=0)
    own_session = subprocess.Popen(SLEEP, start_new_session=True)
    starter = f"import subprocess; print(subprocess.Popen({list(SLEEP)!r}, start_new_session=True, stdout=subprocess.DEVNULL).pid)"
    daemon = subprocess.run([sys.executable, "-c", starter], stdout=subprocess.PIPE, check=True)
    pids = [os.getpid(), same_session.pid, own_session.pid, int(daemon.stdout)]
    (folder / "pids").write_text(" ".join(map(str, pids)))


def save_artifact(folder: Path, events: EventWriter) -> None:
    import hashlib

    content = b"drafter weights " * 1000
    (folder / "artifacts").mkdir(exist_ok=True)
    (folder / "artifacts" / "drafter.safetensors").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    events.write(ArtifactSaved(name="drafter", type="drafter", path="artifacts/drafter.safetensors", bytes=len(content), sha256=digest))


if __name__ == "__main__":
    sys.exit(main())
