"""``python -m engine.drafter train`` trains a drafter, ``... eval FOLDER`` measures one. Exit code 2: a mistake the user can mend."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from engine.config import parse
from engine.config.task import GENERATED
from engine.drafter import serving_export
from engine.errors import LongtailError
from engine.interruption import INTERRUPTED, interruptible
from engine.pretraining import command


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with interruptible():
            options.command(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except LongtailError as error:
        print(f"{error.code} error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.filename is None:  # of no file that was named
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return LongtailError.exit_code
    return 0


def _eval(options: argparse.Namespace) -> None:
    from engine.drafter.evaluate import evaluate_folder, task_of, write_card  # here, so that --help need not wait for torch
    from engine.rollout.interface import Sampling

    settings = {name: getattr(options, name) for name in ("temperature", "top_p", "max_new_tokens")}
    config = parse({"seed": options.seed, "rollout": settings})
    sampling = Sampling(**settings, seed=config.seed)
    result = evaluate_folder(options.folder, options.model, task_of(options.task), options.prompts, sampling)
    print(json.dumps(result) if options.json else table(result), flush=True)
    if options.write_card:  # last, as it may be impossible
        write_card(options.folder, result)


def table(result: dict[str, Any]) -> str:
    """The result for people: a line for each strategy, with its acceptance by position in per cent."""
    from engine.drafter.evaluate import measured_in

    lines = [
        f"drafter         {result['drafter']}",
        f"base model      {result['base_model']}",
        f"measured in     {measured_in(result)}",
        f"top-1 agreement {result['top1_agreement']:.1%}",
        "",
        f"{'strategy':22} {'accept length':>13}  accepted at depth 1, 2, ... (%)",
    ]
    for name in ("chain", "tree"):
        one = result[name]
        shape = f"{name} d{one['depth']} k{one['top_k']} v{one['verify']}"
        rates = " ".join(f"{100 * rate:.0f}" for rate in one["acceptance"])
        lines.append(f"{shape:22} {one['accept_length']:13.2f}  {rates}")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longtail drafter", description="Drafters outside of runs")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    trained = commands.add_parser("train", help="train a drafter for a model")
    command.add_arguments(trained)
    trained.set_defaults(command=command.train)
    exported = commands.add_parser("export", help="write a drafter folder in the format of a serving engine")
    serving_export.add_arguments(exported)
    exported.set_defaults(command=serving_export.export)
    measure = commands.add_parser("eval", help="measure a drafter folder")
    measure.add_argument("folder", type=Path, help="drafter folder (config.json, model.safetensors)")
    measure.add_argument(
        "--model", help="tiny, small, a name of longtail models, or a local Hugging Face folder; by default what the drafter's card names"
    )
    measure.add_argument(
        "--task",
        default="countdown",
        help=f"{', '.join(GENERATED)}, or a JSONL or parquet file of maths questions and answers that it was not trained on",
    )
    measure.add_argument("--prompts", type=_positive, default=64, help="at most: of a file that has fewer, each is used once")
    measure.add_argument("--max-new-tokens", type=_positive, default=512)
    measure.add_argument("--temperature", type=float, default=1.0, help="0 is greedy")
    measure.add_argument("--top-p", type=float, default=1.0)
    measure.add_argument("--seed", type=int, default=0, help="of prompts and sampling")
    measure.add_argument("--write-card", action="store_true", help="write the figures of the chain into the README.md")
    measure.add_argument("--json", action="store_true", help="print JSON")
    measure.set_defaults(command=_eval)
    return parser


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1 (got {text[:24]})")
    return value


if __name__ == "__main__":
    sys.exit(main())
