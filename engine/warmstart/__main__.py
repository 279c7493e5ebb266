"""``python -m engine.warmstart --out FOLDER``: makes ``tiny`` and its drafter from nothing, as they are shipped."""

import argparse
from pathlib import Path

from engine.warmstart.drafter import train_drafter
from engine.warmstart.target import WarmStart, train_target


def main() -> None:
    """Writes FOLDER/tiny and FOLDER/drafter."""
    parser = argparse.ArgumentParser(prog="python -m engine.warmstart", description="Train the built-in model and its first drafter")
    parser.add_argument("--out", type=Path, required=True, help="folder for tiny/ and drafter/")
    parser.add_argument("--minutes", type=float, default=65.0, help="supervised training of the model; 0 keeps OUT/tiny")
    parser.add_argument("--drafter-minutes", type=float, default=60.0, help="training of its drafter; 0 leaves it out")
    parser.add_argument("--processes", type=int, default=2, help="one a core")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    target = options.out / "tiny"
    if options.minutes:
        train_target(WarmStart(target, options.minutes, options.processes, options.seed))
    if options.drafter_minutes:
        print(train_drafter(target, options.out / "drafter", options.drafter_minutes, options.seed))


if __name__ == "__main__":
    main()
