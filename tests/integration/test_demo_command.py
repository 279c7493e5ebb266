"""The demo as a user starts it, on a real stack; generated telemetry takes the place of training."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bare_model import make_bare_model
from sizes import only_with_all

from backend.database import Database
from backend.jobs.engine.processes import start_time
from backend.models import Run
from backend.services.runs.presets import preset
from backend.settings import Settings
from backend.stack.child_process import kill_sessions, sessions_below
from backend.stack.home_folder import read_server_file
from backend.stack.local_stack import Stack
from longtail import Longtail

REPLAY = (sys.executable, str(Path(__file__).parents[1] / "replay_engine.py"))
ASLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
UNLUCKY = (sys.executable, "-c", "raise SystemExit('out of luck')")
DEMO = (sys.executable, "-c", "from backend.cli import app; app()", "demo", "--exit", "--seed", "7")
Start = Callable[..., subprocess.Popen[str]]
KEYS = {"wall_s", "e2e_speedup", "rollout_share", "rollout_speedup", "reward_plain", "reward_tlt", "accept_length", "harvest"}


@pytest.fixture
def start() -> Iterator[Start]:
    demos: list[subprocess.Popen[str]] = []

    def start_demo(home: Path, engine: tuple[str, ...], *options: str, **variables: str) -> subprocess.Popen[str]:
        environment = os.environ | {"LONGTAIL_HOME": str(home), "LONGTAIL_ENGINE_COMMAND": json.dumps(engine)} | variables
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        demos.append(subprocess.Popen([*DEMO, *options], env=environment, **pipes))
        return demos[-1]

    yield start_demo
    for demo in demos:
        kill_sessions(sessions_below(demo.pid) - {os.getsid(0)})
        demo.kill()
        demo.wait()


def states(home: Path) -> list[str]:
    with Database(Settings(home=home).database).read() as session:
        return [run.state for run in session.query(Run)]


def seeds(home: Path) -> list[int]:
    with Database(Settings(home=home).database).read() as session:
        return [run.seed for run in session.query(Run)]


def result(output: str) -> dict[str, Any]:
    last = output.splitlines()[-1]
    assert last.startswith("RESULT "), output
    numbers: dict[str, Any] = json.loads(last.removeprefix("RESULT "))
    return numbers


def test_two_runs_a_table_and_a_line_for_programs(tmp_path: Path, start: Start) -> None:
    demo = start(tmp_path, REPLAY)
    output, _ = demo.communicate(timeout=1000)
    assert demo.returncode == 0, output
    assert states(tmp_path) == ["succeeded", "succeeded"]
    assert seeds(tmp_path) == [7, 7]
    assert "end-to-end speed-up" in output
    assert "/compare?runs=" in output
    numbers = result(output)
    assert numbers.keys() == KEYS
    steps = preset("demo-tlt").config["algorithm"]["steps"]
    assert [len(numbers[key]) for key in ("reward_plain", "reward_tlt", "accept_length")] == [steps] * 3
    assert numbers["e2e_speedup"] > 1
    assert read_server_file(Settings(home=tmp_path)) is None


def test_ctrl_c_cancels_the_runs_and_leaves_nothing(tmp_path: Path, start: Start) -> None:
    demo = start(tmp_path, ASLEEP)
    deadline = time.monotonic() + 1000
    while read_server_file(Settings(home=tmp_path)) is None or "starting" not in states(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    noted = read_server_file(Settings(home=tmp_path))
    assert noted is not None
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=1000)
    assert demo.returncode == 130, output
    assert states(tmp_path) == ["cancelled", "cancelled"]
    assert [start_time(pid) for pid, _ in noted["parts"]] == [None, None, None]


def test_a_run_that_fails_fails_the_demo_and_says_why(tmp_path: Path, start: Start) -> None:
    demo = start(tmp_path, UNLUCKY)
    output, _ = demo.communicate(timeout=1000)
    assert demo.returncode == 1, output
    assert "out of luck" in output
    assert states(tmp_path)[0] == "failed"
    assert states(tmp_path)[1] in ("failed", "cancelled")


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    return Stack(tmp_path, port=0, dashboard=False, settings=Settings(engine_command=REPLAY))


@only_with_all
def test_a_stack_that_runs_already_is_used_and_left_running(stack: Stack, start: Start) -> None:
    with stack:
        demo = start(stack.settings.home, REPLAY)
        output, _ = demo.communicate(timeout=1000)
        assert demo.returncode == 0, output
        assert stack.url in output
        with Longtail(stack.url, stack.token) as client:
            assert [run.tags for run in client.runs().items] == [["demo"], ["demo"]]


@only_with_all
def test_the_real_demo_trains_a_drafter_which_the_next_one_takes(stack: Stack, start: Start) -> None:
    home = stack.settings.home
    make_bare_model(home / "models" / preset("real-tlt").config["model"]["path"])
    with stack:
        first, _ = start(home, REPLAY, "--real").communicate(timeout=1000)
        again, _ = start(home, REPLAY, "--real").communicate(timeout=1000)
        with Longtail(stack.url, stack.token) as client:
            runs = list(reversed(client.runs().items))
            left = {artifact.id: artifact.run_id for artifact in client.all_artifacts(["drafter"]).items}
    assert [run.name for run in runs] == ["real-drafter", "real-plain", "real-tlt", "real-plain", "real-tlt"], first + again
    assert {(run.state, run.seed) for run in runs} == {("succeeded", 7)}
    drafter, _, tlt, _, later = runs
    assert [left[run.drafter_id or ""] for run in (tlt, later)] == [drafter.id, drafter.id]  # the newest, in generated time
    assert drafter.pretraining is not None
    assert result(first).keys() == KEYS | {"pretrain_s"}
    assert result(first)["pretrain_s"] == pytest.approx(drafter.pretraining.seconds, abs=0.1)
    assert result(again)["pretrain_s"] == 0
    assert "Trains a drafter first" in first
    assert f"Takes the drafter of run {drafter.id}" in again


@only_with_all
def test_the_real_demo_gets_its_model_or_says_why_not(tmp_path: Path, start: Start) -> None:
    demo = start(tmp_path, REPLAY, "--real", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    output, _ = demo.communicate(timeout=1000)
    assert demo.returncode == 2, output
    assert "smollm2-135m is not on this machine yet" in output
    assert output.splitlines()[-1].startswith("longtail: pip cannot download")
    assert states(tmp_path) == []
