"""``python -m engine.planner.plan_command RUN.YAML``, which is ``longtail plan``: what a run will take, in time, memory and money.

Exit code 0; 2: a mistake the user can mend.
"""

import argparse
import errno
import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.config import RunConfig, load
from engine.errors import ConfigError, LongtailError
from engine.planner.answers.basis import basis
from engine.planner.answers.plan import Plan, plan, timeline
from engine.planner.answers.recorded_run import RecordedRun, recorded_run
from engine.planner.answers.text import text
from engine.planner.hardware import GIGA, MORE_ROOM, known_gpus, machines
from engine.planner.simulation.response_lengths import SPREAD, LogNormal, ResponseLengths, assumed, from_file
from engine.speculation.tuner.cost_table import CostTable

OF_MEMORY = ("failed to map segment from shared object", os.strerror(errno.ENOMEM))
"""What a module that cannot be loaded says where that is for want of memory."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with _at_most(options.memory):
            found = _planned(options)
    except (MemoryError, OSError, ImportError) as error:
        if not _of_memory(error):
            raise
        allowed = f"{options.memory:g} GB are" if options.memory else "what this machine has is"
        print(f"config error: memory: {allowed} not enough to plan this; {MORE_ROOM}", file=sys.stderr)
        return ConfigError.exit_code
    except LongtailError as error:
        print(f"{error.code} error: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(found.as_json) if options.json else text(found))
    return 0


def _of_memory(error: BaseException) -> bool:
    """Where the system or an import meets the limit, it has its own words for it."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    causes = (str(each) for each in (error, error.__cause__))
    return isinstance(error, MemoryError) or any(text in cause for cause in causes for text in OF_MEMORY)


@contextmanager
def _at_most(gigabytes: float | None) -> Iterator[None]:
    """So much memory, or less where the machine says so: more is a MemoryError, which is told without the limit."""
    np.linalg.inv(np.eye(64))  # OpenBLAS asks for its buffer at the first call, and for ever where there is none
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = int(gigabytes * GIGA) if gigabytes else soft
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _planned(options: argparse.Namespace) -> Plan:
    if options.events:
        _check_events(options.events)
    found = _plan(options)
    if options.events:
        _write_events(options)
    return found


def _plan(options: argparse.Namespace) -> Plan:
    given = machines(options.gpus, options.price, options.hardware)
    config, recorded = load(options.run), _recorded(options)
    recorded_config = _recorded_config(options.trace)
    costs = _costs(options.costs)
    kinds = known_gpus(options.hardware)
    lengths, plain = _lengths(options, config), _plain(options)
    return plan(config, given, kinds, lengths, recorded, recorded_config, costs, options.deadline, not options.quick, plain)


def _check_events(file: Path) -> None:
    """LongtailError if it cannot be written without a loss."""
    if file.exists() or not file.parent.is_dir():
        raise LongtailError(f"events: {file} is there already, or its folder is not; give a new file in a folder that is there")


def _write_events(options: argparse.Namespace) -> None:
    config = load(options.run)
    given = machines(options.gpus, options.price, options.hardware)
    recorded, made_with = _recorded(options), _recorded_config(options.trace)
    found = basis(config, given, _lengths(options, config), recorded, made_with, _costs(options.costs), plain=_plain(options))
    lines = timeline(found, config.algorithm.steps)
    options.events.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def _recorded(options: argparse.Namespace) -> RecordedRun | None:
    if options.trace is None:
        return None
    found, config = recorded_run(options.trace), _recorded_config(options.trace)
    return replace(found, name=config.name) if config else found


def _plain(options: argparse.Namespace) -> tuple[RecordedRun, RunConfig] | None:
    if options.plain_trace is None:
        return None
    found, config = recorded_run(options.plain_trace), _recorded_config(options.plain_trace)
    if config is None:
        raise LongtailError(f"plain trace: {options.plain_trace} has no config.yaml; give the folder of a run")
    return found, config


def _recorded_config(trace: Path | None) -> RunConfig | None:
    """What the recorded run was made with, where it stands beside its events; None: the run that is planned."""
    file = (trace if trace.is_dir() else trace.parent) / "config.yaml" if trace else None
    return load(file) if file and file.is_file() else None


def _lengths(options: argparse.Namespace, config: RunConfig) -> ResponseLengths | None:
    if options.lengths:
        return from_file(options.lengths, config.seed)
    if options.median is None and options.spread is None:
        return None
    usual = assumed(config.rollout.max_new_tokens, config.seed)
    return LogNormal(options.median or usual.median, options.spread or usual.spread, config.seed)


def _costs(file: Path | None) -> CostTable | None:
    if file is None:
        return None
    found = CostTable.load(file)
    if found is None:
        raise LongtailError(f"costs: {file} is no cost table of this version; give a file that the native engine has measured")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longtail plan", description="What a run will take: time, memory, money, and what to change")
    parser.add_argument("run", type=Path, help="YAML file of a run; its model may also be a name: 7B, 32B, 70B")
    parser.add_argument("--gpus", default="h100:8", metavar="KIND:COUNT", help="such as h100:64, cpu:2 (default h100:8)")
    parser.add_argument("--hardware", type=Path, metavar="FILE", help="YAML with machines of your own, like engine/planner/hardware.yaml")
    parser.add_argument("--price", type=float, help="dollars for a GPU-hour")
    parser.add_argument("--trace", type=Path, metavar="RUN", help="folder of a finished run: its lengths, acceptance and times are taken")
    parser.add_argument(
        "--plain-trace", type=Path, metavar="RUN", help="folder of a run without speculation, beside --trace: what plain decoding takes"
    )
    parser.add_argument("--lengths", type=Path, metavar="FILE", help="lengths of responses: a JSON list, or one a line")
    parser.add_argument("--median", type=_positive, metavar="TOKENS", help="of the lengths, in place of recorded or usual ones")
    parser.add_argument("--spread", type=_positive, help=f"standard deviation of their logarithm (default {SPREAD})")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="a measured table of decode costs, in place of the roofline")
    parser.add_argument("--deadline", type=float, metavar="HOURS", help="name the cheapest machines with which the run is over by then")
    parser.add_argument("--events", type=Path, metavar="FILE", help="also write the simulated run's events")
    parser.add_argument("--memory", type=_positive, metavar="GB", help="what the planner itself may take, reserved addresses included")
    parser.add_argument("--quick", action="store_true", help="the arms only")
    parser.add_argument("--json", action="store_true")
    return parser


def _positive(written: str) -> float:
    value = float(written)
    if not 0 < value < 10**9:
        raise argparse.ArgumentTypeError(f"{written} is not a number above 0 and below 1,000,000,000")
    return value


if __name__ == "__main__":
    sys.exit(main())
