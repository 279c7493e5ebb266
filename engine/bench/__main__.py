"""``python -m engine.bench NAME [--json FILE] [--quick]``: prints what was measured and, as its last line, ``RESULT {json}``.

``python -m engine.bench report`` writes the page of all figures from the files of results.
"""

import argparse
import json
import sys
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.bench import (
    ablation,
    algorithms,
    checkpoint,
    context,
    device,
    draft_vocabulary,
    e2e,
    equality,
    few_rows,
    graphs,
    learning,
    lossless,
    memory,
    packing,
    real,
    recipes,
    rollout,
    sglang,
    spot,
    tail,
    timelines,
    tuner,
    word_problems,
)
from engine.bench.planner import benchmark as planner
from engine.bench.provenance import save
from engine.bench.report import README, write
from engine.errors import LongtailError
from engine.interruption import INTERRUPTED, interruptible

BENCHES = {
    "rollout": (rollout.run, "small"),
    "lossless": (lossless.run, "tiny"),
    "tuner": (tuner.run, "small"),
    "graphs": (graphs.run, "small"),
    "packing": (packing.run, "tiny"),
    "checkpoint": (checkpoint.run, "small"),
    "context": (context.run, "recalling"),
    "recipes": (recipes.run, "tiny"),
    "spot": (spot.run, "tiny"),
    "memory": (memory.run, "0.5B"),
    "device": (device.run, "tiny"),
    "few_rows": (few_rows.run, "all"),
}
OF_DATA = ("draft_vocabulary", "real", "sglang")
"""Those in which a pretrained model answers questions."""
OF_DRAFTER = ("equality",)
"""Those that a drafter can be given to, of a model that has none."""
PRETRAINED = "smollm2-135m"
OF_RUNS = {
    "algorithms": (algorithms.run, "tiny"),
    "e2e": (e2e.run, "all"),
    "learning": (learning.run, "tiny"),
    "planner": (planner.run, "all"),
    "tail": (tail.run, "tiny"),
    "timelines": (timelines.run, "tiny"),
    "word_problems": (word_problems.run, PRETRAINED),
}
"""Those whose runs a folder can keep."""

OPTIONS_OF: Mapping[str, Collection[str]] = {
    "data": OF_DATA,
    "minutes": ("real",),
    "drafter": ("sglang", *OF_DRAFTER, "e2e"),
    "scenario": ("e2e",),
    "ablate": ("tuner",),
    "seeds": ("e2e",),
    "runs": OF_RUNS,
}
"""The benchmarks that heed an option; one that would do nothing is refused."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="longtail bench", description="Measure what Longtail claims")
    parser.add_argument("name", choices=[*sorted([*BENCHES, *OF_DATA, *OF_DRAFTER, *OF_RUNS]), "report"])
    parser.add_argument("--json", type=Path, help="also write the result to this file, with where it comes from")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repetitions")
    parser.add_argument(
        "--model",
        help=f"built-in model (tiny, small), for e2e also demo, uniform or {PRETRAINED}, for planner a part, for real, draft_vocabulary "
        "and sglang any name of longtail models or folder; each benchmark has its own default",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help=f"for {', '.join(OF_DATA)}, which need it: GSM8K's train.jsonl, to train on; test.jsonl beside it is measured on",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        nargs="+",
        help="for real: minutes of training of each of its drafters, which are kept (default 10 30 60)",
    )
    parser.add_argument(
        "--drafter",
        type=Path,
        help=f"a drafter folder: for sglang in place of one that is trained first, for equality of a model that has none, for e2e that of "
        f"{PRETRAINED}",
    )
    parser.add_argument(
        "--scenario",
        choices=sorted(e2e.SCENARIOS),
        help="for e2e: no drafter at the start, a policy that moves away from its drafter, or prompts that come back",
    )
    parser.add_argument("--ablate", action="store_true", help="for tuner: what each of its parts is worth, in virtual rollouts")
    parser.add_argument("--seeds", type=int, help="for e2e: seeds of each scale or scenario, in place of its own number")
    parser.add_argument("--runs", type=Path, help=f"keep runs in this folder and do not repeat those it has ({', '.join(OF_RUNS)})")
    options = parser.parse_args(arguments)
    if options.json and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    if options.json and options.json.is_dir():
        parser.error(f"--json: {options.json} is a folder; name a file")
    if options.name == "report" and (options.json or options.model or options.quick):
        parser.error("report takes no options: it measures nothing")
    if options.runs and options.runs.exists() and not options.runs.is_dir():
        parser.error(f"--runs: {options.runs} is no folder")
    for option, names in OPTIONS_OF.items():
        if getattr(options, option) not in (None, False) and options.name not in names:
            parser.error(f"--{option} is for {', '.join(names)} alone")
    if options.minutes and not all(minutes > 0 for minutes in options.minutes):
        parser.error("--minutes: give more than 0")
    if options.seeds is not None and options.seeds < 1:
        parser.error("--seeds: give at least 1")
    try:
        if options.name == "report":
            write()
            print(README)
            return 0
        with interruptible():  # whole runs end with the benchmark that is told to
            result = _measured(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except LongtailError as error:
        print(f"{error.code} error: {error}", file=sys.stderr)
        return 2
    _table(result)
    if options.json:
        save(options.json, result, settings(options))
    print(f"RESULT {json.dumps(result)}")
    return 0


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """What a result says of how it was made: what it was measured with, but not where."""
    drafter = options.drafter and options.drafter.absolute().name
    told = {name: getattr(options, name) for name in ("quick", "model", "minutes", "scenario", "ablate", "seeds")}
    return told | {"drafter": drafter}


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    if options.name == "real":
        return real.run(options.quick, options.model or PRETRAINED, options.data, options.minutes)
    if options.name == "draft_vocabulary":
        return draft_vocabulary.run(options.quick, options.model or PRETRAINED, options.data)
    if options.name == "sglang":
        return sglang.run(options.quick, options.model or PRETRAINED, options.data, options.drafter)
    if options.name == "equality":
        return equality.run(options.quick, options.model or "tiny", options.drafter)
    if options.name in BENCHES:
        run, usual = BENCHES[options.name]
        run = ablation.run if options.name == "tuner" and options.ablate else run
        return run(options.quick, options.model or usual)
    of_runs, usual = OF_RUNS[options.name]
    if options.name == "e2e":
        of_runs = partial(e2e.run, scenario=options.scenario, drafter=options.drafter, seeds=options.seeds)
    with TemporaryDirectory(prefix="longtail-bench-") as aside:
        return of_runs(options.quick, options.model or usual, options.runs or Path(aside))


def _table(result: dict[str, Any], indent: str = "") -> None:
    for name, value in result.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            _table(value, indent + "  ")
        else:
            print(f"{indent}{name:24} {value}")


if __name__ == "__main__":
    sys.exit(main())
