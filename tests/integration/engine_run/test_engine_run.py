"""The engine on its own, in real processes: plain, TLT, and refusing bad input."""

import hashlib
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from card_numbers import numbers, same
from engine_processes import ALONE, SMALL_RUN, Config, finish, lengths, run, start, steps
from sizes import ALL
from sqlalchemy import select

from backend.database import Database
from backend.migrate import upgrade
from backend.models import LogLine, Run
from backend.services.runs.attempts import claim
from backend.services.runs.submission import SubmissionOptions, submit
from backend.services.telemetry.event_ingest import EventIngestor
from backend.services.telemetry.run_statistics import run_statistics
from engine.config.parsing import parse
from engine.events import ArtifactSaved, Decoding, DrafterTrained, Log, Speculation, StartingUp, WorkerSpan, read
from engine.speculation.tuner.cost_table import CostTable

SLACK = 0.02 if ALL else 0.5
"""Seconds that may lie between two processes' looks at the clock; half of one where other tests run beside this."""


def test_the_cards_of_a_real_run_show_what_its_events_say(tlt: Path, tmp_path: Path) -> None:
    """Its file is read into a database, as a worker does."""
    database = Database(f"sqlite:///{tmp_path / 'longtail.db'}")
    upgrade(database)
    with database.write() as session:
        run_id = submit(session, parse(yaml.safe_load((tlt / "config.yaml").read_text())), SubmissionOptions())[0].id
        claimed = claim(session, run_id, "a" * 16, 60)
        told = list(read(tlt / "events.jsonl"))
        began = session.get_one(Run, run_id).started_at = told[0].time
    assert claimed
    EventIngestor(database, run_id, claimed.attempt, tlt / "events.jsonl").drain()
    with database.read() as session:
        same(run_statistics(session, session.get_one(Run, run_id)), numbers(told, began))
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


def test_gsm8k_with_a_model_never_seen_before(config: Config, tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "data" / "gsm8k_sample.jsonl"
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


def test_speculation_that_does_nothing_rests_and_looks_again(config: Config, tmp_path: Path) -> None:
    """The worker never runs as few requests as would let it draft."""
    rollout = SMALL_RUN["rollout"] | {"max_new_tokens": 4}
    idle = SMALL_RUN["speculation"] | {"threshold": 1, "rest": 2}
    algorithm = SMALL_RUN["algorithm"] | {"steps": 6}
    events = run(config | ALONE | {"algorithm": algorithm, "rollout": rollout, "speculation": idle}, tmp_path)
    assert [event.step for event in events if isinstance(event, Speculation)] == [0, 1, 4]
    assert [event.message[:7] for event in events if isinstance(event, Log) and "rests for 2 steps" in event.message] == [
        "step 1:",
        "step 4:",
    ]
    assert len(lengths(events)) == 6
