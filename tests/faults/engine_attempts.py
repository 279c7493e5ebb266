"""A real run of the engine on a random model, attempt after attempt, as the platform would resume it; and what its events must say."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from models_for_tests import make_random_model

from backend.jobs.engine.processes import attempt_variables, kill_all, processes_of_attempt
from engine.events import AnyEvent, RolloutFinished, RunStarted, StepFinished, read

SECONDS = 600.0
TESTS = Path(__file__).parents[1]


def configuration(folder: Path, steps: int, **sections: Any) -> dict[str, Any]:
    """A run whose policy moves at every step; ``folder`` gets its model and its rows."""
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{number}?"}) + "\n" for number in range(40)))
    return {
        "seed": 3,
        "model": {"path": str(make_random_model(folder / "model"))},
        "task": {"name": "function", "path": str(rows), "prompt": "{question}", "function": "faults.even_task:reward"},
        "algorithm": {"steps": steps, "prompts_per_step": 4, "group_size": 4, "learning_rate": 1e-3, "kl_coefficient": 0.0},
        "rollout": {"max_prompt_tokens": 16, "max_new_tokens": 32, "max_batch": 8},
        "speculation": {"strategies": [{"depth": 3, "verify": 3}], "tuner": {"name": "beg"}},
        "drafter": {"path": None},
        "checkpoint": {"every": 5},
    } | sections


class Attempts:
    """Those of one run in ``out``."""

    def __init__(self, out: Path, config: dict[str, Any], prefix: tuple[str, ...] = (), **environment: str) -> None:
        """``prefix``: a command that runs each attempt, such as one that puts it into a network of its own."""
        out.mkdir(parents=True)
        self.out, self.number = out, 0
        self._before = 0
        self._config = out / "config.yaml"
        self._config.write_text(yaml.safe_dump(config))
        self._prefix = prefix
        self._environment = {"LONGTAIL_HOME": str(out / "home"), "PYTHONPATH": f"{TESTS.parent}:{TESTS}"} | environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """The next one, which resumes."""
        self.number += 1
        self._before = len(self.story())
        command = [*self._prefix, sys.executable, "-m", "engine", "run", str(self._config), "--out", str(self.out), "--resume"]
        environment = os.environ | self._environment | attempt_variables(self.out.name, self.number)
        with (self.out / f"attempt_{self.number}.log").open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process, "no attempt has been started"
        return self._process

    def processes(self) -> set[int]:
        """All that belong to the attempt."""
        return processes_of_attempt(self.out.name, self.number, self.process.pid)

    def kill(self) -> None:
        """All of them."""
        kill_all(self.out.name, self.number, self.process.pid)
        self.process.wait(SECONDS)

    def ended(self, seconds: float = SECONDS) -> int:
        """The exit code, once the attempt has ended by itself; what it left behind is ended as the platform does it."""
        code = self.process.wait(seconds)
        self.kill()
        return code

    def until(self, condition: Callable[["Attempts"], bool], seconds: float = SECONDS) -> bool:
        """Whether ``condition`` came true before the attempt ended."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if condition(self):
                return True
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.1)  # each look reads all events
        return False

    def log(self) -> str:
        return (self.out / f"attempt_{self.number}.log").read_text(errors="replace")

    def events(self) -> list[AnyEvent]:
        file = self.out / "events.jsonl"
        return list(read(file)) if file.exists() else []

    def steps(self) -> int:
        """How many steps the newest attempt has finished; -1 before it has begun to train."""
        story = self.story()
        return len(story[-1][1]) if len(story) > self._before else -1

    def story(self) -> list[tuple[int, list[StepFinished]]]:
        """Of each attempt that began to train, its first step and the steps that it finished."""
        found: list[tuple[int, list[StepFinished]]] = []
        for event in self.events():
            if isinstance(event, RunStarted):
                found.append((event.first_step, []))
            elif isinstance(event, StepFinished):
                found[-1][1].append(event)
        return found

    def curve(self) -> dict[int, float]:
        """The reward of each step, as it counts in the end."""
        return {event.step: event.metrics["reward_mean"] for _, steps in self.story() for event in steps}


def check(attempts: Attempts, steps: int) -> None:
    """The story of a run that is done: no attempt leaves out or doubles a step, each goes on behind a checkpoint of those before, what is
    done again comes out as it did the first time, and no process is left."""
    story = attempts.story()
    for first, finished in story:
        assert [event.step for event in finished] == list(range(first, first + len(finished)))
    for (_, before), (first, _) in pairwise(story):
        assert first <= max([event.step + 1 for event in before], default=first)
    assert list(attempts.curve()) == list(range(steps))
    for outcome in (_rewards, _lengths):
        seen: dict[int, Any] = {}
        for step, value in outcome(attempts.events()):
            assert seen.setdefault(step, value) == value, f"step {step} came out differently"
    assert attempts.events()[-1].kind == "run_finished"
    assert attempts.processes() == set()


def _rewards(events: list[AnyEvent]) -> Iterator[tuple[int, float]]:
    return ((event.step, event.metrics["reward_mean"]) for event in events if isinstance(event, StepFinished))


def _lengths(events: list[AnyEvent]) -> Iterator[tuple[int, list[int]]]:
    return ((event.step, event.lengths) for event in events if isinstance(event, RolloutFinished))
