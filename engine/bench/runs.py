"""Whole runs of the engine, for benchmarks: each in a process and a folder of its own, and what their events say."""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from engine.checkpoint.run_folder import ARTIFACTS, CHECKPOINTS, EVENTS
from engine.errors import LongtailError
from engine.events import AnyEvent, DrafterTrained, RunFinished, StepFinished, read
from engine.interruption import run_child

CONFIG = "config.yaml"


def run_engine(folder: Path, config: Mapping[str, Any], artifacts: bool = False) -> list[AnyEvent]:
    """All events of a run of ``config`` in ``folder``, which keeps them and the configuration. A run of the same that was finished there
    before is not repeated. ``artifacts``: its policy and drafter stay there, too. LongtailError with its last words if it fails."""
    events = finished(folder, config)
    if events:
        return events
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / CONFIG
    file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
    command = [sys.executable, "-m", "engine", "run", str(file), "--out", str(folder)]
    code, said = run_child(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if code:
        raise LongtailError(f"the run in {folder.name} failed: {said[-2000:]}")
    for large in (CHECKPOINTS,) if artifacts else (CHECKPOINTS, ARTIFACTS):
        shutil.rmtree(folder / large)
    events = finished(folder, config)
    print(f"{folder.name}: {[round(step.seconds, 2) for step in steps(events)]} s a step", flush=True)
    return events


def finished(folder: Path, config: Mapping[str, Any]) -> list[AnyEvent]:
    """All events of the run of ``config`` in ``folder``; none unless it has reached its end."""
    file = folder / CONFIG
    if not file.exists() or yaml.safe_load(file.read_text(encoding="utf-8")) != config:
        return []
    path = folder / EVENTS
    events = list(read(path)) if path.exists() else []
    return events if events and isinstance(events[-1], RunFinished) else []


def steps(events: Sequence[AnyEvent]) -> list[StepFinished]:
    """What each RL step came to."""
    return [event for event in events if isinstance(event, StepFinished)]


def wall_seconds(events: Sequence[AnyEvent]) -> list[float]:
    """At the end of each step, the seconds since the first one began: what lies between two steps counts, too."""
    done = steps(events)
    return [step.time - done[0].time + done[0].seconds for step in done]


def sessions(events: Sequence[AnyEvent]) -> list[DrafterTrained]:
    """Each training of the drafter in a tail."""
    return [event for event in events if isinstance(event, DrafterTrained)]


def harvest(finished: Sequence[StepFinished]) -> float:
    """The share of idle worker-seconds spent training; 0 if there were none."""
    idle = sum(step.metrics["idle_seconds"] for step in finished)
    return round(sum(step.metrics["trained_seconds"] for step in finished) / idle, 4) if idle else 0.0


def metric(events: Sequence[AnyEvent], name: str, digits: int = 4) -> list[float]:
    """``name`` of each step that has it: one that taught nothing lacks the figures of its gradient."""
    return [round(step.metrics[name], digits) for step in steps(events) if name in step.metrics]
