"""Whole runs of the engine, for benchmarks: each in a process and a folder of its own, and what their events say."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from engine.errors import LongtailError
from engine.events import AnyEvent, DrafterTrained, StepFinished, read


def run_engine(folder: Path, config: Mapping[str, Any]) -> list[AnyEvent]:
    """All events of a run of ``config`` in the new ``folder``; LongtailError with its last words if it fails."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
    command = [sys.executable, "-m", "engine", "run", str(folder / "config.yaml"), "--out", str(folder)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise LongtailError(f"the run in {folder.name} failed: {done.stderr[-2000:]}")
    events = list(read(folder / "events.jsonl"))
    print(f"{folder.name}: {[round(step.seconds, 2) for step in steps(events)]} s a step", flush=True)
    return events


def steps(events: Sequence[AnyEvent]) -> list[StepFinished]:
    """What each RL step came to."""
    return [event for event in events if isinstance(event, StepFinished)]


def sessions(events: Sequence[AnyEvent]) -> list[DrafterTrained]:
    """Each training of the drafter in a tail."""
    return [event for event in events if isinstance(event, DrafterTrained)]


def harvest(finished: Sequence[StepFinished]) -> float:
    """The share of idle worker-seconds spent training; 0 if there were none."""
    idle = sum(step.metrics["idle_seconds"] for step in finished)
    return round(sum(step.metrics["trained_seconds"] for step in finished) / idle, 4) if idle else 0.0


def metric(events: Sequence[AnyEvent], name: str) -> list[float]:
    """``name`` of each step."""
    return [round(step.metrics[name], 4) for step in steps(events)]
