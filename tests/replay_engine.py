"""Stands in for the engine where a test is about what surrounds it: ``run CONFIG --out FOLDER`` writes generated telemetry.

The run's name sets the scene: "slow" takes half a second a step, "stuck" stops after its sixth step, "broken" fails there, and "chatty" has
much to say, not all of it harmless. A round of pretraining a drafter counts as a step; "held" waits after the sixth until its folder has a
file "go".
"""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from backend.demo_data import telemetry
from engine.errors import RESUMABLE, USER_ERROR
from engine.events import AnyEvent, EventWriter, Log, RunStopped, Sample

PACE_SECONDS = 0.5
SCENE_STEPS = 6
LINES = 450
HOSTILE = "<img src=x onerror=alert(1)> </pre></span> **bold** \x1b[31mred\x1b[0m \x1b[2J \u0627\u0628 :smile: $x^2$"


def main() -> None:
    _, _, config_file, _, out = sys.argv[:5]
    config = yaml.safe_load(Path(config_file).read_text(encoding="utf-8"))
    writer = EventWriter(Path(out) / "events.jsonl")
    name = config["name"]
    stop = Path(out) / "stop"
    ends_early = "stuck" in name or "broken" in name
    steps = SCENE_STEPS if ends_early else None
    events = telemetry.events(config, steps, start=time.time(), artifacts=[Path(out) / "artifacts" / "drafter.zip"])
    for event in chatty(events) if "chatty" in name else events:
        if event.kind == "checkpoint":  # without one on disk no other attempt begins
            (Path(out) / "checkpoints" / f"step_{event.step:06d}").mkdir(parents=True, exist_ok=True)
        writer.write(event)
        if ends_early and event.kind == "pretraining" and event.round == SCENE_STEPS:
            break
        while "held" in name and event.kind == "pretraining" and event.round == SCENE_STEPS and not (Path(out) / "go").exists():
            time.sleep(0.05)
        if "slow" in name and event.kind in ("step", "pretraining"):
            time.sleep(PACE_SECONDS)
            if stop.exists():
                stop.unlink()
                writer.write(RunStopped(step=event.step if event.kind == "step" else -1))
                sys.exit(RESUMABLE)
    if "stuck" in name:
        time.sleep(3600)
    if "broken" in name:
        writer.write(Log(level="error", code="data", message="prompts.jsonl: line 7 is not JSON\nmend it, or leave the line out"))
        sys.exit(USER_ERROR)


def chatty(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """``events``, with more lines and a sample after the first of them."""
    for event in events:
        yield event
        if event.kind == "run_started":
            yield from (Log(level="info", message=f"line {number} of {LINES}") for number in range(LINES))
            yield Log(level="warning", message=HOSTILE)
            yield Sample(step=0, prompt=HOSTILE, response=HOSTILE, reward=9.0, pieces=telemetry.pieces(HOSTILE, drafted=True))


if __name__ == "__main__":
    main()
