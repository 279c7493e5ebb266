"""Stands in for the engine where a test is about what surrounds it: ``run CONFIG --out FOLDER`` writes generated telemetry.

The run's name sets the scene: "slow" takes half a second a step, "stuck" stops after its sixth step, "broken" fails there.
"""

import sys
import time
from pathlib import Path

import telemetry
import yaml

from engine.events import EventWriter, Log, RunStopped

PACE_SECONDS = 0.5
SCENE_STEPS = 6
USER_ERROR = 2
RESUMABLE = 75


def main() -> None:
    _, _, config_file, _, out = sys.argv[:5]
    config = yaml.safe_load(Path(config_file).read_text(encoding="utf-8"))
    writer = EventWriter(Path(out) / "events.jsonl")
    name = config["name"]
    stop = Path(out) / "stop"
    steps = SCENE_STEPS if "stuck" in name or "broken" in name else None
    for event in telemetry.events(config, steps, start=time.time(), artifact=Path(out) / "artifacts" / "drafter.safetensors"):
        writer.write(event)
        if "slow" in name and event.kind == "step":
            time.sleep(PACE_SECONDS)
            if stop.exists():
                stop.unlink()
                writer.write(RunStopped(step=event.step))
                sys.exit(RESUMABLE)
    if "stuck" in name:
        time.sleep(3600)
    if "broken" in name:
        writer.write(Log(level="error", code="data", message="prompts.jsonl: line 7 is not JSON\nmend it, or leave the line out"))
        sys.exit(USER_ERROR)


if __name__ == "__main__":
    main()
