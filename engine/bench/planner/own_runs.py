"""Runs on this machine, predicted before they run: from two recorded runs of another seed on as many workers, one of them plain, and the
cost table that they measured."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.bench.runs import run_engine, steps
from engine.config import merged, parse
from engine.errors import LongtailError
from engine.events import AnyEvent
from engine.planner.answers.basis import basis
from engine.planner.answers.recorded_run import RecordedRun, of_events
from engine.planner.hardware import machines
from engine.planner.simulation.run import Simulation
from engine.speculation.tuner.cost_table import CostTable

STEPS = 8
"""Of a run; the first is not compared: engine, tuner and caches start in it."""
SIMULATED = 4 * STEPS
PLAIN = {"speculation": {"enabled": False}}
CHAIN = {"speculation": {"strategies": [{"depth": 4, "top_k": 1, "verify": 4}], "tuner": {"name": "fixed"}}}
CALIBRATING = {"seed": 7, "algorithm": {"group_size": 4, "steps": 12}, "rollout": {"max_new_tokens": 1024}}


@dataclass(frozen=True)
class Case:
    """A configuration that runs plain and with drafts; ``prompts`` of 4 responses each; ``arm`` is what drafts."""

    workers: int
    prompts: int
    limit: int
    arm: str = "tlt"

    @property
    def name(self) -> str:
        return f"{self.workers} workers, batch {4 * self.prompts // self.workers}, at most {self.limit} tokens, {self.arm}"

    def config(self, speculative: bool) -> dict[str, Any]:
        own = {
            "algorithm": {"prompts_per_step": self.prompts, "group_size": 4, "steps": STEPS},
            "rollout": {"max_new_tokens": self.limit},
            "cluster": {"workers": self.workers},
        }
        return merged(merged(SHARED, own), ({} if self.arm == "tlt" else CHAIN) if speculative else PLAIN)


SHARED: dict[str, Any] = {
    "seed": 1,
    "model": {"path": "tiny", "dtype": "auto"},
    "task": {"name": "countdown", "four_numbers": 0.25},
    "rollout": {"max_prompt_tokens": 64},
    "cluster": {"workers": 2},
}
CASES = (
    Case(2, 8, 1024),
    Case(1, 4, 256),
    Case(2, 4, 64),
    Case(1, 8, 1024),
    Case(2, 16, 512),
    Case(1, 16, 256, "chain"),
    Case(2, 8, 256, "chain"),
    Case(2, 32, 128),
    Case(1, 2, 64),
    Case(2, 4, 1024, "chain"),
)


def run(folder: Path, count: int) -> dict[str, Any]:
    """``count`` of the cases. Their predictions stand in ``folder`` before the first of them runs."""
    with _own_home(folder):
        recorded = {workers: CalibratingRuns.of(folder, workers) for workers in sorted({case.workers for case in CASES[:count]})}
        predicted = {case.name: {arm: _predicted(case, arm == "drafts", recorded[case.workers]) for arm in ARMS} for case in CASES[:count]}
        (folder / "predicted.json").write_text(json.dumps(predicted, indent=1), encoding="utf-8")
        rows = [_row(folder, index, case, predicted[case.name]) for index, case in enumerate(CASES[:count])]
    return _summary(rows)


ARMS = ("plain", "drafts")


@contextmanager
def _own_home(folder: Path) -> Iterator[None]:
    """Where the engine keeps the costs that it measures."""
    before = os.environ.get("LONGTAIL_HOME")
    os.environ["LONGTAIL_HOME"] = str((folder / "home").absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ["LONGTAIL_HOME"]
        else:
            os.environ["LONGTAIL_HOME"] = before


@dataclass(frozen=True)
class CalibratingRuns:
    """What is known before the first case runs."""

    drafting: RecordedRun
    plain: RecordedRun
    costs: CostTable

    @classmethod
    def of(cls, folder: Path, workers: int) -> "CalibratingRuns":
        """LongtailError if the runs have left no cost table."""
        drafting, plain = (
            run_engine(folder / f"calibrating-{arm}-{workers}", _calibrating(workers, arm == "drafts")) for arm in ARMS[::-1]
        )
        tables = [table for file in sorted((folder / "home").rglob("*.json")) if (table := CostTable.load(file))]
        if not tables:
            raise LongtailError(f"the calibrating run has left no cost table below {folder.name}/home")
        return cls(of_events(drafting, "a calibrating run"), of_events(plain, "a plain calibrating run"), tables[0])


def _calibrating(workers: int, speculative: bool) -> dict[str, Any]:
    """A worker has as many requests whatever their number."""
    own = {"cluster": {"workers": workers}, "algorithm": {"prompts_per_step": 4 * workers}}
    return merged(merged(merged(SHARED, CALIBRATING), own), {} if speculative else PLAIN)


def _predicted(case: Case, speculative: bool, known: CalibratingRuns) -> float:
    """Seconds of a step, on average over more of them than are measured: what chance did in a few is not to be predicted."""
    drafting, plain = (parse(_calibrating(case.workers, speculates)) for speculates in (True, False))
    config, hosts = parse(case.config(speculative)), machines(f"cpu:{case.workers}")
    found = basis(config, hosts, None, known.drafting, drafting, known.costs, plain=(known.plain, plain))
    simulated = list(Simulation(found.config, found.assumptions).steps(SIMULATED))
    return round(fmean(step.seconds for step in simulated[1:]), 4)


def _row(folder: Path, index: int, case: Case, predicted: dict[str, float]) -> dict[str, Any]:
    order = ARMS if index % 2 else ARMS[::-1]
    measured = {arm: _measured(run_engine(folder / f"case-{index}-{arm}", case.config(arm == "drafts"))) for arm in order}
    found = {"run": case.name, "measured_s": measured, "predicted_s": predicted}
    return found | {"load": round(os.getloadavg()[0], 1)}


def _measured(events: list[AnyEvent]) -> float:
    return round(fmean(step.seconds for step in steps(events)[1:]), 4)


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    pairs = [(row["predicted_s"][arm], row["measured_s"][arm]) for row in rows for arm in ARMS]
    speedups = [tuple(row[side]["plain"] / row[side]["drafts"] for side in ("predicted_s", "measured_s")) for row in rows]
    return {
        "own": [
            {
                "run": f"{row['run']}: {arm}",
                "measured_s": row["measured_s"][arm],
                "predicted_s": row["predicted_s"][arm],
                "load": row["load"],
            }
            for row in rows
            for arm in ARMS
        ],
        "own_mean_abs_error": round(fmean(abs(predicted / measured - 1) for predicted, measured in pairs), 4),
        "own_speedups": [
            {"run": row["run"], "measured": round(measured, 3), "predicted": round(predicted, 3)}
            for row, (predicted, measured) in zip(rows, speedups, strict=True)
        ],
        "own_speedup_mean_abs_error": round(fmean(abs(predicted / measured - 1) for predicted, measured in speedups), 4),
        "own_rankings_right": sum((predicted > 1) == (measured > 1) for predicted, measured in speedups),
        "own_runs": len(rows),
    }
