"""Runs of the engine in processes of their own: started, killed, and what they told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from forked_python.interpreter import ENGINE, forked_python

from engine.events import AnyEvent, RolloutFinished, StepFinished, read

STRATEGIES = [{"depth": 3, "verify": 3}, {"depth": 3, "top_k": 2, "verify": 6}, {"drafter": "ngram", "depth": 4, "verify": 4}]
SMALL_RUN: dict[str, Any] = {
    "seed": 3,
    "algorithm": {"steps": 3, "prompts_per_step": 4, "group_size": 4},
    "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 48, "max_batch": 8},
    "speculation": {"strategies": STRATEGIES, "tuner": {"name": "beg"}},
    "drafter": {"path": None},
    "checkpoint": {"every": 2},
}
Config = dict[str, Any]
ALONE = {"cluster": {"workers": 1}}
"""Half as many processes, for what has nothing to do with several workers."""


def start(config: Config, out: Path, *flags: str, python: str = "") -> "subprocess.Popen[str]":
    out.mkdir(exist_ok=True)
    (out / "config.yaml").write_text(yaml.safe_dump(config))
    command = [python or forked_python(*ENGINE), "-m", "engine", "run", str(out / "config.yaml"), "--out", str(out), *flags]
    environment = os.environ | {"LONGTAIL_HOME": str(out / "home")}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, errors = process.communicate(timeout=1000)
    return process.returncode, errors


def run(config: Config, out: Path, *flags: str) -> list[AnyEvent]:
    code, errors = finish(start(config, out, *flags))
    assert code == 0, errors[-2000:]
    return list(read(out / "events.jsonl"))


def kill_once_there(config: Config, out: Path, saved: str) -> None:
    """SIGKILL of a run, and of all that it started, as soon as it has ``saved``."""
    process = start(config, out, python=sys.executable)  # copies have sessions of their own
    while not (out / saved).exists():
        assert process.poll() is None, f"the run ended before {saved}"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    _kill_session(process.pid)


def _kill_session(session: int) -> None:
    """Ray's daemons have process groups of their own in the same session."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if os.getsid(int(folder.name)) == session:
                    os.kill(int(folder.name), signal.SIGKILL)
            except ProcessLookupError:
                continue


def steps(events: list[AnyEvent]) -> list[StepFinished]:
    return [event for event in events if isinstance(event, StepFinished)]


def lengths(events: list[AnyEvent]) -> list[list[int]]:
    return [event.lengths for event in events if isinstance(event, RolloutFinished)]


def policy(out: Path) -> bytes:
    return (out / "artifacts/policy/model.safetensors").read_bytes()
