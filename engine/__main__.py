"""``python -m engine run CONFIG.yaml --out FOLDER [--resume]``: one run without any backend.

Exit code 2: a mistake the user can mend; 75: start again with --resume. A file FOLDER/stop stops it at the next step
boundary (75). 70: a fault of ours, since 1 is what Ray ends a process with. ``python -m engine trace FOLDER``: its timeline for Perfetto.
"""

import argparse
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType

from engine.checkpoint.run_folder import EVENTS
from engine.cluster.late_actor import uncollected
from engine.config import load
from engine.errors import FAULT, LongtailError, StoppedError
from engine.events import EventWriter
from engine.telemetry.chrome_trace import write_trace

TOLD = (signal.SIGTERM, signal.SIGINT)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except StoppedError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except LongtailError as error:
        print(f"{error.code} error: {error}", file=sys.stderr)
        return error.exit_code
    except Exception:
        traceback.print_exc()
        return FAULT
    except SystemExit:  # see _terminate
        print("interrupted; with --resume the run goes on from its newest checkpoint", file=sys.stderr)
        raise
    return 0


def _trace(options: argparse.Namespace) -> None:
    out = options.out or options.folder / "trace.json"
    print(f"{out}: {write_trace(options.folder, out)} entries; open it in ui.perfetto.dev")


def _run(options: argparse.Namespace) -> None:
    for number in TOLD:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as a shell has it for what runs in the background
            signal.signal(number, _terminate)
    try:
        config = load(options.config)
    except LongtailError:
        with EventWriter(options.out / EVENTS, take_over=options.take_over):
            raise
    with uncollected():
        from engine.run import run  # here, so that a wrong config is told before torch is loaded

    run(config, options.out, options.resume, take_over=options.take_over)


def _terminate(number: int, _: FrameType | None) -> None:
    for each in TOLD:
        signal.signal(each, signal.SIG_IGN)  # a second one would cut off what is being ended
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine", description="Longtail's engine, on its own")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="train")
    run.add_argument("config", type=Path, help="run configuration (YAML)")
    run.add_argument("--out", type=Path, required=True, help="folder for events, checkpoints and artifacts")
    run.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --out")
    run.add_argument("--take-over", action="store_true", help="also from an engine that still writes to --out, but has lost the run")
    run.set_defaults(command=_run)
    trace = commands.add_parser("trace", help="write the timeline of a run as a Chrome trace")
    trace.add_argument("folder", type=Path, help="folder of a run, with events.jsonl in it")
    trace.add_argument("--out", type=Path, help="file to write; trace.json in that folder by default")
    trace.set_defaults(command=_trace)
    return parser


if __name__ == "__main__":
    sys.exit(main())
