"""A light stand-in for the engine that writes true events and true checkpoints; it starts in a few hundredths of a second.

The run's name may say where it kills itself, once: "mid-checkpoint", "mid-event", "between-artifact-and-row".
The environment sets its pace (FAULT_STEP_SECONDS), the step at which the first attempt stands still until it is ended (FAULT_HELD_AT),
and the size its files may have (FAULT_FILE_BYTES: a full disk).
"""

import hashlib
import json
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

KINDS = ("mid-checkpoint", "mid-event", "between-artifact-and-row")
FATAL_STEP = 2
STOPPED = 75


class Run:
    def __init__(self, config: Path, out: Path, resume: bool) -> None:
        text = config.read_text()
        self.name = self._field(text, "name")
        self.steps = int(self._field(text, "  steps"))
        self.out = out
        self.attempt = int(os.environ["LONGTAIL_ATTEMPT"].rpartition(".")[2])
        self.first = self.newest() + 1 if resume else 0
        self.seq = self.mend()
        self.events = (out / "events.jsonl").open("a")

    @staticmethod
    def _field(text: str, name: str) -> str:
        found = re.search(rf"^{name}: (.*)$", text, re.MULTILINE)
        assert found, f"no {name} in the configuration"
        return found.group(1)

    def mend(self) -> int:
        file = self.out / "events.jsonl"
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if len(whole) < len(lines):
            os.truncate(file, sum(map(len, whole)))
        return len(whole)

    def write(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"kind": kind, "seq": self.seq, "time": time.time(), "version": 1} | fields)
        if kind == "step" and fields["step"] == FATAL_STEP:
            self.perhaps_die("mid-event", lambda: (self.events.write(line[: len(line) // 2]), self.events.flush()))  # type: ignore[func-returns-value]
        self.events.write(line + "\n")
        self.events.flush()
        self.seq += 1

    def perhaps_die(self, where: str, before: Any = lambda: None) -> None:
        mark = self.out / "died"
        if self.name == where and not mark.exists():
            mark.touch()
            before()
            os.kill(os.getpid(), signal.SIGKILL)

    def save(self, step: int) -> None:
        final, aside = self.out / f"checkpoints/step_{step:06d}", self.out / f"checkpoints/.step_{step:06d}.writing"
        aside.mkdir(parents=True, exist_ok=True)
        (aside / "state.json").write_text(str(step))
        if step == FATAL_STEP:
            self.perhaps_die("mid-checkpoint")
        manifest = {"schema": 1, "step": step, "files": {"state.json": hashlib.sha256(str(step).encode()).hexdigest()}}
        (aside / "manifest.json").write_text(json.dumps(manifest))
        if not final.exists():
            aside.rename(final)
        self.write("checkpoint", step=step, path=str(final.relative_to(self.out)), seconds=0.0)

    def newest(self) -> int:
        whole = [path.parent for path in self.out.glob("checkpoints/step_*/manifest.json")]
        return max((int(path.name.removeprefix("step_")) for path in whole), default=-1)

    def train(self) -> int:
        self.write("run_started", first_step=self.first, steps=self.steps, workers=1, model_parameters=1, device="cpu", packages={})
        held_at = int(os.environ.get("FAULT_HELD_AT", "-1")) if self.attempt == 1 else -1
        for step in range(self.first, self.steps):
            if step == held_at:
                time.sleep(3600)
            time.sleep(float(os.environ.get("FAULT_STEP_SECONDS", "0.04")))
            self.write("rollout", step=step, lengths=[step + 1], truncated=0)
            metrics = {"reward_mean": step / 8, "attempt": self.attempt}
            self.write("step", step=step, seconds=1.0, phases={"rollout": 0.5}, metrics=metrics)
            self.save(step)
            if (self.out / "stop").exists() and step < self.steps - 1:
                self.write("run_stopped", step=step)
                return STOPPED
        self.export()
        self.write("run_finished", steps=self.steps)
        return 0

    def export(self) -> None:
        file = self.out / "artifacts/policy.zip"
        file.parent.mkdir(exist_ok=True)
        content = self.out.name.encode() * 100
        file.write_bytes(content)
        self.perhaps_die("between-artifact-and-row")
        digest = hashlib.sha256(content).hexdigest()
        self.write("artifact", name=file.name, type="policy", path="artifacts/policy.zip", bytes=len(content), sha256=digest)


if __name__ == "__main__":
    if limit := os.environ.get("FAULT_FILE_BYTES"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    _, _, config_file, _, out_folder = sys.argv[:5]
    sys.exit(Run(Path(config_file), Path(out_folder), "--resume" in sys.argv).train())
