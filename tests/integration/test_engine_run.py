"""The engine on its own, in real processes: plain, TLT, resumed after a kill, and refusing bad input."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from card_numbers import numbers, same
from forked_python.interpreter import ENGINE, forked_python
from safetensors.torch import load_file
from sizes import ALL, only_with_all
from sqlalchemy import select

from backend.database import Database
from backend.migrate import upgrade
from backend.models import LogLine, Run
from backend.services.runs.attempts import claim
from backend.services.runs.submission import SubmissionOptions, submit
from backend.services.telemetry.event_ingest import EventIngestor
from backend.services.telemetry.run_statistics import run_statistics
from engine.config.parsing import parse
from engine.events import (
    AnyEvent,
    ArtifactSaved,
    Decoding,
    DrafterPretrained,
    DrafterTrained,
    Log,
    RolloutFinished,
    Sample,
    Speculation,
    StartingUp,
    StepFinished,
    WorkerSpan,
    read,
)
from engine.speculation.tuner.cost_table import CostTable

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
SLACK = 0.02 if ALL else 0.5
"""Seconds that may lie between two processes' looks at the clock; half of one where other tests run beside this."""


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


def steps(events: list[AnyEvent]) -> list[StepFinished]:
    return [event for event in events if isinstance(event, StepFinished)]


def lengths(events: list[AnyEvent]) -> list[list[int]]:
    return [event.lengths for event in events if isinstance(event, RolloutFinished)]


def prompts(events: list[AnyEvent]) -> list[str]:
    return [event.prompt for event in events if isinstance(event, Sample)]


def policy(out: Path) -> bytes:
    return (out / "artifacts/policy/model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def config(random_model: Path) -> Config:
    return SMALL_RUN | {"model": {"path": str(random_model)}}


@pytest.fixture(scope="module")
def tlt(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the default tuner; the other runs with speculation use the bandit."""
    out = tmp_path_factory.mktemp("tlt")
    run(config | {"speculation": {"strategies": STRATEGIES}}, out)
    return out


@pytest.fixture(scope="module")
def plain(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain")
    run(config | ALONE | {"speculation": {"enabled": False}}, out)
    return out


def test_the_cards_of_a_real_run_show_what_its_events_say(tlt: Path, tmp_path: Path) -> None:
    """Its file is read into a database, as a worker does."""
    database = Database(f"sqlite:///{tmp_path / 'longtail.db'}")
    upgrade(database)
    with database.write() as session:
        run_id = submit(session, parse(yaml.safe_load((tlt / "config.yaml").read_text())), SubmissionOptions())[0].id
        claimed = claim(session, run_id, "a" * 16, 60)
    assert claimed
    EventIngestor(database, run_id, claimed.attempt, tlt / "events.jsonl").drain()
    with database.read() as session:
        row = session.get_one(Run, run_id)
        assert row.started_at is not None
        same(run_statistics(session, row), numbers(list(read(tlt / "events.jsonl")), row.started_at))
        lines = session.scalars(select(LogLine.message).order_by(LogLine.id)).all()
    database.close()
    assert lines[:2] == ["starting the workers", "measuring what decoding costs on this machine, unless that is known"]
    assert sum(line.startswith("took ") for line in lines) == 3, "a line for each step"
    assert "the first rollout: 16 responses" in lines


def test_a_run_tells_everything_about_each_step(tlt: Path) -> None:
    events = list(read(tlt / "events.jsonl"))
    assert [event.seq for event in events] == list(range(len(events)))
    phases = [(event.phase, event.done) for event in events if isinstance(event, StartingUp)]
    assert phases[:3] == [("starting_workers", 0), ("measuring_costs", 0), ("first_rollout", 0)]
    assert phases[-1] == ("first_rollout", 16)
    assert (events[0].kind, events[2].kind, events[-1].kind) == ("starting_up", "run_started", "run_finished")
    assert [event.step for event in steps(events)] == [0, 1, 2]
    for event in steps(events):
        assert sum(event.phases.values()) == pytest.approx(event.seconds, rel=1e-6)
        assert event.metrics["trained_seconds"] <= event.metrics["idle_seconds"] + 1e-6
        assert event.metrics["logprob_gap"] < 1e-3
    assert all(len(step) == 16 for step in lengths(events))
    trained = {event.step for event in events if isinstance(event, DrafterTrained)}
    untrained = {event.step: event.untrained for event in events if isinstance(event, Speculation)}
    assert {step for step, reason in untrained.items() if reason is None} == trained


def test_a_step_tells_what_decoding_took_and_would_have_taken(tlt: Path, plain: Path) -> None:
    """One in which speculation rests tells nothing."""
    told = [step for step in steps(list(read(tlt / "events.jsonl"))) if "decode_seconds" in step.metrics]
    assert told[0].step == 0
    for step in told:
        assert 0 < step.metrics["decode_seconds"] < step.phases["rollout"]
        assert all(step.metrics[f"decode_seconds/{otherwise}"] > 0 for otherwise in ("plain", "ngram", "untrained"))
    assert not any("decode_seconds" in step.metrics for step in steps(list(read(plain / "events.jsonl"))))


def test_spans_of_a_worker_leave_no_gap_in_a_step(tlt: Path) -> None:
    """They add up to its wall time within one per cent, or the milliseconds in which prompts are made: these steps are very short."""
    spans: dict[tuple[int, int], list[WorkerSpan]] = defaultdict(list)
    events = list(read(tlt / "events.jsonl"))
    for event in events:
        if isinstance(event, WorkerSpan):
            spans[event.step, event.worker].append(event)
    seconds = {event.step: event.seconds for event in steps(events)}
    assert set(spans) == {(step, worker) for step in range(3) for worker in range(2)}
    for (step, _), found in spans.items():
        assert sum(span.end - span.start for span in found) == pytest.approx(seconds[step], rel=0.01, abs=SLACK)
        assert found[0].state == "BUSY"
        assert found[-1].state == "UPDATE"
        assert all(before.end == pytest.approx(after.start, abs=SLACK) for before, after in pairwise(found))
    told = {(event.step, event.worker): event for event in events if isinstance(event, Decoding)}
    assert set(told) == set(spans)
    for key, event in told.items():
        busy = spans[key][0]
        assert event.points[-1][1:] == (0, "off")
        assert busy.start - SLACK <= event.start <= event.start + event.points[-1][0] <= busy.end + SLACK
        assert max(running for _, running, _ in event.points) == 8


def test_the_default_tuner_measures_the_machine_once_and_uses_it(tlt: Path) -> None:
    (table,) = (tlt / "home/costs").iterdir()
    assert CostTable.load(table) is not None
    arms = [arm for event in read(tlt / "events.jsonl") if isinstance(event, Speculation) for arm in event.arms]
    assert {arm.strategy for arm in arms} <= {"off", "eagle d3 k1 v3", "eagle d3 k2 v6", "ngram d4 k1 v4"}
    assert {arm.bucket for arm in arms} <= {1, 2, 4, 8}, "powers of two are the default tuner's"
    learnt = [json.loads((tlt / f"checkpoints/step_000002/workers/engine_{rank}.json").read_text()) for rank in range(2)]
    assert all(state["speculation"]["tuner"]["acceptance"] for state in learnt)


def test_the_drafter_and_the_policy_can_be_taken_away(tlt: Path) -> None:
    artifacts = {event.name: event for event in read(tlt / "events.jsonl") if isinstance(event, ArtifactSaved)}
    assert set(artifacts) == {"drafter.zip", "policy.zip"}
    for artifact in artifacts.values():
        data = (tlt / artifact.path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (artifact.bytes, artifact.sha256)


def test_speculation_changes_no_response(plain: Path, tlt: Path) -> None:
    """Same seed, same weights in the first step: the very same responses and rewards, whatever the drafter does."""
    without, with_speculation = list(read(plain / "events.jsonl")), list(read(tlt / "events.jsonl"))
    assert lengths(with_speculation)[0] == lengths(without)[0]
    assert steps(with_speculation)[0].metrics["reward_mean"] == steps(without)[0].metrics["reward_mean"]
    assert not any(event.kind in ("speculation", "drafter") for event in without)
    assert {event.metrics["accept_length"] for event in steps(without)} == {1.0}


def test_a_killed_run_resumes_to_the_same_policy(config: Config, plain: Path, tmp_path: Path) -> None:
    """SIGKILL of the whole session after the first checkpoint; the resumed attempt ends where the undisturbed run did."""
    wanted = config | ALONE | {"speculation": {"enabled": False}}
    kill_once_there(wanted, tmp_path, "checkpoints/step_000001")
    events = run(wanted, tmp_path, "--resume")
    resumed = [event for event in events if event.kind == "run_started"][-1]
    assert resumed.kind == "run_started"
    assert resumed.first_step == 2
    assert policy(tmp_path) == policy(plain)


@only_with_all
def test_a_run_asked_to_stop_does_so_at_a_step_boundary_and_goes_on_to_the_same_policy(config: Config, plain: Path, tmp_path: Path) -> None:
    wanted = config | ALONE | {"speculation": {"enabled": False}}
    (tmp_path / "stop").touch()
    code, errors = finish(start(wanted, tmp_path))
    assert (code, errors.splitlines()[-1]) == (75, "stopped after step 0, as asked; --resume goes on from there")
    assert not (tmp_path / "stop").exists(), "a wish that was granted must not stop the next attempt"
    *_, saved, stopped = read(tmp_path / "events.jsonl")
    assert (saved.kind, stopped.kind) == ("checkpoint", "run_stopped")
    events = run(wanted, tmp_path, "--resume")
    assert [event.step for event in steps(events)] == [0, 1, 2]
    assert policy(tmp_path) == policy(plain)


def test_steps_stopped_early_go_on_with_what_they_had(config: Config, tmp_path: Path) -> None:
    """All that scheduling can do at once; what it changes is told by each step and on the timeline, and what is open is part of the
    checkpoint."""
    # many prompts: on a busy machine the wish to stop comes late; many at once: so next time some go on that were begun
    scheduling = {"longest_first": True, "over_sampling": 4, "partial": True}
    rollout = {"max_prompt_tokens": 64, "max_new_tokens": 600, "max_batch": 8, "scheduling": scheduling}
    events = run(config | {"rollout": rollout, "speculation": {"enabled": False}}, tmp_path)
    found = steps(events)
    assert [event.step for event in found] == [0, 1, 2]
    metrics = [event.metrics for event in found]
    assert any(each["stopped_responses"] > 0 for each in metrics)
    assert metrics[0]["stale_share"] == 0
    assert any(0 < each["stale_share"] <= 1 for each in metrics[1:])
    assert all(-1 <= each["forecast_correlation"] <= 1 for each in metrics)
    marked: Counter[tuple[int, str]] = Counter()
    for event in events:
        if isinstance(event, Decoding):
            marked.update({(event.step, what): number for _, what, number in event.marks})
    assert [marked[step, "stopped"] for step in range(3)] == [each["stopped_responses"] for each in metrics]
    carried = [0.0, *(each["carried_responses"] for each in metrics)]  # some of them are at their end, and come only to be learned from
    assert all(marked[step, "carried"] <= carried[step] for step in range(3))
    assert all(marked[step, "longest_first"] > 0 for step in range(3))
    assert all(len(step) == 16 for step in lengths(list(read(tmp_path / "events.jsonl"))))
    backlog = json.loads((tmp_path / "checkpoints/step_000002/workers/schedule.json").read_text())["backlog"]
    assert len(backlog["groups"]) == 12
    assert backlog["position"] == 3 * 4 + 12


@only_with_all
def test_a_run_goes_on_with_other_numbers_of_workers(config: Config, plain: Path, tmp_path: Path) -> None:
    """A step with two, one with one, one with three, all with shards of the policy: the responses and the policy of one with the whole."""
    for workers in (2, 1, 3):
        cluster = {"workers": workers, "learner": {"parallel": "fsdp"}}
        wanted = config | {"speculation": {"enabled": False}, "cluster": cluster}
        if workers != 3:
            (tmp_path / "stop").touch()
        code, errors = finish(start(wanted, tmp_path, *([] if workers == 2 else ["--resume"])))
        assert code == (0 if workers == 3 else 75), errors[-2000:]
    events, expected = (list(read(out / "events.jsonl")) for out in (tmp_path, plain))
    assert lengths(events) == lengths(expected)
    assert [event.prompt for event in events if isinstance(event, Sample)] == [
        event.prompt for event in expected if isinstance(event, Sample)
    ]
    found, wanted_weights = (load_file(out / "artifacts/policy/model.safetensors") for out in (tmp_path, plain))
    torch.testing.assert_close(found, wanted_weights, atol=1e-5, rtol=0)


def rounds(events: list[AnyEvent]) -> list[DrafterPretrained]:
    return [event for event in events if isinstance(event, DrafterPretrained)]


def test_a_drafter_is_pretrained_killed_stopped_and_goes_on(config: Config, plain: Path, tmp_path: Path) -> None:
    """Before the steps of a run, which then drafts with it, and generates what the plain run does."""
    pretrained = {"path": None, "pretrain_minutes": 0.6, "draft_vocabulary": 24}
    changed = config | {"drafter": pretrained} | ({} if ALL else ALONE)
    kill_once_there(changed, tmp_path, "pretraining/step_000002")
    before = rounds(list(read(tmp_path / "events.jsonl")))
    (tmp_path / "stop").touch()
    code, errors = finish(start(changed, tmp_path, "--resume"))
    assert (code, "while the drafter was being pretrained" in errors) == (75, True), errors[-2000:]
    after = rounds(list(read(tmp_path / "events.jsonl")))[len(before) :]
    assert len(after) == 1
    assert after[0].seconds > before[0].seconds, "time spent before the kill counts"
    assert after[0].responses > before[0].responses, "what was written before the kill counts"
    events = run(changed, tmp_path, "--resume")
    told = rounds(events)
    assert [event.round for event in told] == sorted(event.round for event in told)
    assert told[-1].done
    assert {event.vocabulary for event in told} == {24}
    assert told[-1].seconds == pytest.approx(36, abs=8)
    assert lengths(events) == lengths(list(read(plain / "events.jsonl"))), "drafts change no response"
    assert any(event.drafted_by_position[0] for event in events if isinstance(event, Speculation))
    weights = load_file(tmp_path / "artifacts/drafter/model.safetensors")
    assert len(weights["d2t"]) == 24


@only_with_all
def test_a_drafter_is_made_of_given_responses(tmp_path: Path) -> None:
    """By the command, which knows of its own folder only by a relative path."""
    rows = [{"prompt": f"{n}+{n}=", "response": f"{2 * n}, and {n} more is {3 * n}"} for n in range(40)]
    (tmp_path / "given.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [forked_python(*ENGINE), "-m", "engine.drafter", "train", "--model", "tiny", "--responses", "given.jsonl"]
    command += ["--minutes", "0.2", "--workers", "1", "--draft-vocabulary", "0", "--out", "drafter"]
    environment = os.environ | {"LONGTAIL_HOME": str(tmp_path / "home")}
    first, again = (
        finish(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True))
        for _ in range(2)
    )
    assert first[0] == 0, first[1][-2000:]
    assert (again[0], "there is a drafter in drafter" in again[1]) == (2, True)
    events = list(read(tmp_path / "drafter/training/events.jsonl"))
    assert [event.name for event in events if isinstance(event, ArtifactSaved)] == ["drafter.zip"]
    assert rounds(events)[-1].top1 > rounds(events)[0].top1 - 0.05
    assert rounds(events)[-1].microsteps > 0
    card = (tmp_path / "drafter/README.md").read_text()
    assert "expected of chains of 4" in card
    assert "before RL step 0" in card


def test_gsm8k_with_a_model_never_seen_before(config: Config, tmp_path: Path) -> None:
    data = Path(__file__).parents[1] / "data" / "gsm8k_sample.jsonl"
    task = {"name": "math", "path": str(data)}
    events = run(config | ALONE | {"task": task, "rollout": {"max_prompt_tokens": 1024, "max_new_tokens": 32}}, tmp_path)
    assert [event.step for event in steps(events)] == [0, 1, 2]
    assert {event.kind for event in events} >= {"rollout", "worker_state", "speculation", "checkpoint", "artifact", "sample"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modle": {}}, "modle: unknown key"),
        ({"model": {"path": "/nowhere/model"}}, "/nowhere/model"),
        ({"cluster": {"workers": 0}}, "cluster.workers"),
        ({"speculation": {"strategies": [{"depth": 3, "verify": 4}]}}, "speculation.strategies.0: verify=4 exceeds the 3 tokens"),
        ({"rollout": {"max_prompt_tokens": 4, "max_new_tokens": 16}}, "4"),
    ],
)
def test_bad_input_is_told_in_a_line(config: Config, tmp_path: Path, change: Config, message: str) -> None:
    code, errors = finish(start(config | change, tmp_path))
    assert code == 2
    assert message in errors
    assert "Traceback" not in errors
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert (last["kind"], last["level"]) == ("log", "error")
    assert message in last["message"]


def _kill_session(session: int) -> None:
    """Ray's daemons have process groups of their own in the same session."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if os.getsid(int(folder.name)) == session:
                    os.kill(int(folder.name), signal.SIGKILL)
            except ProcessLookupError:
                continue


def test_speculation_that_does_nothing_rests_and_looks_again(config: Config, tmp_path: Path) -> None:
    """The worker never runs as few requests as would let it draft."""
    rollout = SMALL_RUN["rollout"] | {"max_new_tokens": 4}
    idle = SMALL_RUN["speculation"] | {"threshold": 1, "tail_requests": 0, "rest": 2}
    algorithm = SMALL_RUN["algorithm"] | {"steps": 6}
    events = run(config | ALONE | {"algorithm": algorithm, "rollout": rollout, "speculation": idle}, tmp_path)
    assert [event.step for event in events if isinstance(event, Speculation)] == [0, 1, 4]
    assert [event.message[:7] for event in events if isinstance(event, Log) and "rests for 2 steps" in event.message] == [
        "step 1:",
        "step 4:",
    ]
    assert len(lengths(events)) == 6
