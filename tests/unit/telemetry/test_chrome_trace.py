"""A run's events as a Chrome trace: what Perfetto asks of it, and that it tells the timeline."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from backend.demo_data import telemetry
from engine.__main__ import main
from engine.events import Alarm, AnyEvent, Decoding, EventWriter, WorkerSpan
from engine.telemetry.chrome_trace import TraceEntry, chrome_trace

STEPS = 4


@pytest.fixture(scope="module")
def events() -> list[AnyEvent]:
    alarm = Alarm(time=1.8e9 + 8, step=0, code="acceptance_collapsed", message="3% are accepted")
    return [*telemetry.events(telemetry.config(), STEPS), alarm]


@pytest.fixture
def run(events: list[AnyEvent], tmp_path: Path) -> Path:
    writer = EventWriter(tmp_path / "events.jsonl")
    for event in events:
        writer.write(event)
    writer.close()
    return tmp_path


def slices(entries: list[TraceEntry]) -> dict[int, list[TraceEntry]]:
    rows = defaultdict(list)
    for entry in entries:
        if entry["ph"] == "X":
            rows[entry["tid"]].append(entry)
    return rows


def test_every_span_is_a_slice_of_its_worker(events: list[AnyEvent]) -> None:
    found = slices(chrome_trace(events))
    first = min(event.time for event in events)
    for worker in range(2):
        spans = [event for event in events if isinstance(event, WorkerSpan) and event.worker == worker]
        told = [(entry["name"], entry["args"]["step"], entry["ts"], entry["dur"]) for entry in found[worker + 1]]
        assert told == [
            (span.state, span.step, pytest.approx((span.start - first) * 1e6), pytest.approx((span.end - span.start) * 1e6))
            for span in sorted(spans, key=lambda span: span.start)
        ]


def test_what_was_done_about_a_tail_is_in_the_worker_s_row() -> None:
    decoding = Decoding(step=3, worker=1, start=20.0, points=[(0.0, 2, "off"), (1.5, 0, "off")], marks=[(1.5, "stopped", 4)])
    *_, entry = chrome_trace([WorkerSpan(step=3, worker=1, state="BUSY", start=20.0, end=21.5), decoding])
    assert (entry["name"], entry["tid"], entry["ts"], entry["args"]) == ("stopped", 2, 1.5e6, {"step": 3, "number": 4})


def test_phases_fill_their_step(events: list[AnyEvent]) -> None:
    loop = slices(chrome_trace(events))[0]
    steps = [entry for entry in loop if entry["name"].startswith("step ")]
    assert [entry["name"] for entry in steps] == [f"step {step}" for step in range(STEPS)]
    assert all({"accept_length", "reward_mean"} <= entry["args"].keys() for entry in steps)
    phases = sum(entry["dur"] for entry in loop if entry["name"] in ("rollout", "reward", "inference", "update", "sync"))
    assert phases == pytest.approx(sum(entry["dur"] for entry in steps), rel=1e-6)


def test_it_is_what_the_trace_event_format_asks_for(run: Path) -> None:
    out = run / "elsewhere.json"
    assert main(["trace", str(run), "--out", str(out)]) == 0
    trace = json.loads(out.read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    entries = trace["traceEvents"]
    assert {entry["ph"] for entry in entries} == {"M", "X", "C", "i"}
    names = {entry["tid"]: entry["args"]["name"] for entry in entries if entry["ph"] == "M"}
    assert names == {0: "training loop", 1: "worker 0", 2: "worker 1"}
    for entry in entries:
        assert entry["pid"] == 0
        assert entry["tid"] in names
        if entry["ph"] != "M":
            assert entry["ts"] >= 0
        if entry["ph"] == "X":
            assert entry["dur"] >= 0
        if entry["ph"] == "C":
            assert all(isinstance(value, float) for value in entry["args"].values())
        if entry["ph"] == "i":
            assert entry["s"] in ("g", "p", "t")
    times = [entry["ts"] for entry in entries if entry["ph"] != "M"]
    assert times == sorted(times)
    assert [entry["args"]["message"] for entry in entries if entry["name"] == "acceptance_collapsed"] == ["3% are accepted"]


def test_from_the_shell(run: Path) -> None:
    command = [sys.executable, "-m", "backend.cli", "trace", str(run)]
    code = f"import sys; sys.argv = {command[2:]!r}; from backend.cli import app; app()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(run / "trace.json") in done.stdout
    assert json.loads((run / "trace.json").read_text())["traceEvents"]


def test_a_folder_without_events_is_told_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(tmp_path)]) == 2
    assert "no events.jsonl" in capsys.readouterr().err


def test_of_nothing_there_is_nothing() -> None:
    assert chrome_trace([]) == []
