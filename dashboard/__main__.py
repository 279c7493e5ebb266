"""``python -m dashboard [--port N]`` serves the dashboard of the API at LONGTAIL_URL on loopback."""

import argparse
import os
import sys
from pathlib import Path

APP = Path(__file__).with_name("app.py")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dashboard", description=__doc__)
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--address", default="127.0.0.1")
    arguments = parser.parse_args()
    options = [f"--server.port={arguments.port}", f"--server.address={arguments.address}"]
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(APP), *options])


if __name__ == "__main__":
    main()
