"""``python -m backend.bench NAME [--json FILE] [--quick]``: prints what was measured and, as its last line, ``RESULT {json}``."""

import argparse
import json
from pathlib import Path

from backend.bench import api, ingest, pages, platform
from engine.bench.provenance import save
from engine.interruption import interruptible

BENCHES = {"api": api.run, "ingest": ingest.run, "pages": pages.run, "platform": platform.run}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="longtail bench", description="Measure what the platform claims")
    parser.add_argument("name", choices=sorted(BENCHES))
    parser.add_argument("--json", type=Path, help="also write the result to this file, with where it comes from")
    parser.add_argument("--quick", action="store_true", help="fewer points and requests")
    options = parser.parse_args(arguments)
    if options.json and not (options.json.parent.is_dir() and not options.json.is_dir()):
        parser.error(f"--json: {options.json} is a folder, or in none; name a file")
    with interruptible():  # a benchmark that is told to end takes its servers with it
        result = BENCHES[options.name](options.quick)
    for name, value in result.items():
        print(f"{name:28} {value}")
    if options.json:
        save(options.json, result, {"quick": options.quick})
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
