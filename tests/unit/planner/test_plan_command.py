"""``longtail plan``: what it says of a run, and of what cannot be planned."""

import errno
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.config import parse
from engine.events import RolloutFinished, RunFinished, StepFinished, WorkerSpan, read
from engine.planner import plan_command
from engine.planner.answers.plan import Plan
from engine.planner.plan_command import main

LARGE: dict[str, Any] = {
    "model": {"path": "7B"},
    "algorithm": {"steps": 4, "prompts_per_step": 16, "tokens_per_microbatch": 1024},
    "rollout": {"max_new_tokens": 4096, "max_batch": 32},
    "cluster": {"learner": {"parallel": "fsdp", "activation_checkpointing": True}},
}


def written(folder: Path, config: dict[str, Any]) -> str:
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return str(file)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_plan_has_all_arms_with_time_and_money(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, written(tmp_path, LARGE), "--gpus", "h100:8", "--price", "30", "--quick")
    arms = {arm["name"]: arm for arm in found["arms"]}
    assert list(arms) == ["plain", "TLT", "n-grams only", "TLT, longest first", "TLT, over-sampling", "TLT, partial rollouts"]
    assert arms["TLT"]["step_seconds"] < arms["n-grams only"]["step_seconds"] < arms["plain"]["step_seconds"]
    for arm in arms.values():
        assert arm["step_seconds"] == pytest.approx(sum(arm["phases"].values()) + arm["checkpoint"])
        assert arm["dollars"] == pytest.approx(arm["step_seconds"] * 4 / 3600 * 8 * 30)
    assert found["workers"] == 8
    assert max(found["memory"].values()) < 80


def test_the_same_seed_gives_the_same_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = written(tmp_path, LARGE)
    first, again = (planned(capsys, run, "--quick")["arms"] for _ in range(2))
    other = planned(capsys, written(tmp_path, LARGE | {"seed": 5}), "--quick", "--median", "400")["arms"]
    assert first == again
    assert first != other


def test_the_simulated_run_is_in_the_events_of_a_real_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.jsonl"
    planned(capsys, written(tmp_path, LARGE), "--quick", "--events", str(file))
    events = list(read(file))
    assert len(events) == len(file.read_text(encoding="utf-8").splitlines()), "some lines are no events"
    steps = [event for event in events if isinstance(event, StepFinished)]
    lengths = [event for event in events if isinstance(event, RolloutFinished)]
    assert isinstance(events[-1], RunFinished)
    assert [step.step for step in steps] == [one.step for one in lengths] == [0, 1, 2, 3]
    for step in steps:
        spans = [event for event in events if isinstance(event, WorkerSpan) and event.step == step.step]
        assert {span.worker for span in spans} == set(range(8))
        assert max(span.end for span in spans) - min(span.start for span in spans) == pytest.approx(step.seconds, rel=1e-6)


def test_what_a_run_has_recorded_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A simulated run is the recorded one here, so that what is predicted of it is known."""
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    (recorded / "config.yaml").write_text(yaml.safe_dump(LARGE), encoding="utf-8")
    run = written(tmp_path, LARGE)
    planned(capsys, run, "--quick", "--events", str(recorded / "events.jsonl"))
    found = planned(capsys, run, "--quick", "--trace", str(recorded))
    assert found["correction"] == pytest.approx(1, abs=0.1)
    for step in found["recorded"][1:]:
        assert step["predicted_s"] == pytest.approx(step["measured_s"], rel=0.15)
    fewer = planned(capsys, run, "--quick", "--trace", str(recorded), "--gpus", "h100:4")
    assert fewer["arms"][1]["step_seconds"] > found["arms"][1]["step_seconds"]


def told(folder: Path, config: dict[str, Any], capsys: pytest.CaptureFixture[str], factor: float = 1.0) -> Path:
    """A folder of a run of ``config`` whose rollouts took ``factor`` times as long as simulated, but for the first, which took ages."""
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    planned(capsys, written(folder, config), "--quick", "--events", str(folder / "events.jsonl"))
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    for event in events:
        if event["kind"] == "step":
            event["phases"]["rollout"] *= factor if event["step"] else 100
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    return folder


def test_a_plain_run_tells_what_plain_decoding_takes_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, plain = written(tmp_path, LARGE), LARGE | {"speculation": {"enabled": False}}
    trace = str(told(tmp_path / "tlt", LARGE, capsys))
    alone = {arm["name"]: arm["phases"]["rollout"] for arm in planned(capsys, run, "--quick", "--trace", trace)["arms"]}
    for factor in (0.5, 2.0):
        twin = str(told(tmp_path / f"plain-{factor}", plain, capsys, factor))
        found = planned(capsys, run, "--quick", "--trace", trace, "--plain-trace", twin)
        arms = {arm["name"]: arm["phases"]["rollout"] for arm in found["arms"]}
        assert arms["plain"] == pytest.approx(factor * alone["plain"], rel=0.1)
        assert arms["TLT"] == alone["TLT"]
        assert any(note.startswith("plain decoding is that of") for note in found["notes"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "is a run with speculation; give one with speculation.enabled: false"),
        (
            {"speculation": {"enabled": False}, "model": {"path": "32B"}},
            "is a run of 32B, whose sizes are not those of 7B; give one of that",
        ),
        ({"rollout": LARGE["rollout"] | {"scheduling": {"asynchronous": True}}}, "the run generated while it learned"),
    ],
)
def test_a_plain_run_that_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    run, trace = written(tmp_path, LARGE), told(tmp_path / "tlt", LARGE, capsys)
    plain = tmp_path / "plain"
    shutil.copytree(trace, plain)
    (plain / "config.yaml").write_text(yaml.safe_dump(LARGE | changes), encoding="utf-8")
    assert main([run, "--quick", "--trace", str(trace), "--plain-trace", str(plain)]) == 2
    assert said in capsys.readouterr().err
    assert main([run, "--quick", "--plain-trace", str(plain)]) == 2
    assert "plain trace: it says nothing without a recorded run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("step", {"phases": {"rollout": 1.0, "reward": -5.0}}, "trace: reward of step 0 is -5.0, and should be between 0 and 1e+09"),
        ("step", {"phases": {"rollout": 1.0, "sync": math.nan}}, "trace: sync of step 0 is nan"),
        ("step", {"phases": {"rollout": math.inf}}, "trace: rollout of step 0 is inf"),
        ("rollout", {"lengths": [-5] * 128}, "trace: the longest response of step 0 is -5"),
        ("rollout", {"lengths": [10**30] * 128}, "trace: the longest response of step 0 is 1000000"),
        ("run_started", {"workers": 0}, "trace: workers is 0, and should be between 1 and 8192"),
    ],
)
def test_what_no_run_can_have_recorded_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, changes: dict[str, Any], said: str
) -> None:
    run, trace = written(tmp_path, LARGE), told(tmp_path / "tlt", LARGE, capsys)
    events = [json.loads(line) for line in (trace / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    for event in events:
        event |= changes if event["kind"] == kind else {}
    (trace / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    assert main([run, "--quick", "--trace", str(trace)]) == 2
    assert said in capsys.readouterr().err


def test_a_run_of_one_step_can_be_planned_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = LARGE | {"algorithm": LARGE["algorithm"] | {"steps": 1}}
    found = planned(capsys, written(tmp_path, LARGE), "--quick", "--trace", str(told(tmp_path / "one", one, capsys)))
    assert found["correction"] == pytest.approx(100, rel=0.2), "the only step counts"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpus", "h900:8"], "gpus: there is no 'h900:8'; choose one of h100"),
        (["--gpus", "h100:0"], "gpus: 0 GPUs cannot be planned"),
        (["--gpus", "4090:1"], "gpus: 4090:1 has 24 GB a GPU, and update takes"),
        (["--price", "-1"], "price: must not be negative or above 1e+09 (got -1.0)"),
        (["--price", "inf"], "price: must not be negative or above 1e+09 (got inf)"),
        (["--gpus", "h100:" + "9" * 5000], "gpus: there is no"),
        (["--events", "nowhere/events.jsonl"], "events: nowhere/events.jsonl is there already, or its folder is not"),
        (["--events", "run.yaml"], "events: run.yaml is there already, or its folder is not"),
        (["--deadline", "0"], "deadline: must be above 0 (got 0.0)"),
        (["--trace", "nowhere"], "trace: nowhere is neither a run folder nor a file of events"),
        (["--plain-trace", "nowhere"], "trace: nowhere is neither a run folder nor a file of events"),
        (["--plain-trace", "empty.jsonl"], "trace: empty.jsonl has no finished step"),
        (["--trace", "empty.jsonl"], "trace: empty.jsonl has no finished step"),
        (["--lengths", "empty.jsonl"], "lengths: empty.jsonl has no lengths"),
        (["--lengths", "deep.json"], "lengths: deep.json cannot be read"),
        (["--lengths", "long.json"], "lengths: long.json has no lengths, or one below 1 or from 2,147,483,648 on"),
        (["--costs", "."], "costs: . is no cost table of this version"),
        (["--hardware", "nowhere"], "hardware: nowhere is no file"),
        (["--hardware", "mine.yaml"], "hardware.mine.memory: Input should be greater than 0 (got -1)"),
    ],
)
def test_bad_input_is_told_with_field_value_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_text("", encoding="utf-8")
    Path("deep.json").write_text("[" * 200_000, encoding="utf-8")
    Path("long.json").write_text(f"[5, {10**30}]", encoding="utf-8")
    Path("mine.yaml").write_text("mine: {memory: -1, bandwidth: 1, flops: 1, link: 1, network: 1, price: 1}", encoding="utf-8")
    assert main([written(tmp_path, LARGE), "--quick", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("allowed", "said"), [([], "what this machine has is not enough"), (["--memory", "900"], "900 GB are not enough")])
def test_a_plan_that_does_not_fit_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], allowed: list[str], said: str
) -> None:
    def plan(*_: object) -> Plan:
        raise MemoryError

    monkeypatch.setattr(plan_command, "plan", plan)
    assert main([written(tmp_path, LARGE), "--gpus", "h100:8", *allowed]) == 2
    assert said in capsys.readouterr().err


def test_what_goes_on_beside_an_update_is_in_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = LARGE | {"rollout": LARGE["rollout"] | {"scheduling": {"asynchronous": True}}}
    assert main([written(tmp_path, asked), "--quick"]) == 2
    assert "rollout.scheduling.asynchronous=True: a plan has one step after the other" in capsys.readouterr().err


def test_a_file_of_machines_joins_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = {"memory": 80, "bandwidth": 3.35, "flops": 989, "link": 450, "network": 50, "price": 3.0}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"mine": own, "twice": own | {"bandwidth": 6.7}}), encoding="utf-8")
    run = written(tmp_path, LARGE)
    plain = [
        planned(capsys, run, "--quick", "--hardware", str(file), "--gpus", f"{name}:8")["arms"][0]["step_seconds"]
        for name in ("h100", "mine", "twice")
    ]
    assert plain[0] == plain[1] > plain[2]


def test_the_whole_answer_names_machines_and_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = LARGE | {"evaluation": {"every": 1}, "speculation": {"enabled": False}}
    parse(slow)
    assert main([written(tmp_path, slow), "--gpus", "h100:8", "--deadline", "100"]) == 0
    said = capsys.readouterr().out
    assert "speculation.enabled=True" in said
    assert "TLT pays:" in said
    assert "b200:" in said


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        ImportError("libscipy_openblas64_-1b2c9c1b.so: failed to map segment from shared object"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_machine_without_memory_is_told_of_where_no_limit_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    monkeypatch.setattr(plan_command, "_plan", failing(error))
    assert main([written(tmp_path, LARGE)]) == 2
    assert "memory: what this machine has is not enough to plan this" in capsys.readouterr().err


@pytest.mark.parametrize("error", [OSError(errno.EIO, "a disk"), ImportError("no module of this name")])
def test_another_fault_of_the_system_is_not_called_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(plan_command, "_plan", failing(error))
    with pytest.raises(type(error)):
        main([written(tmp_path, LARGE)])


def failing(error: Exception) -> Callable[[object], None]:
    def fail(_: object) -> None:
        raise error

    return fail
