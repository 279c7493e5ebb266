"""``python -m dashboard [--port N]`` serves the dashboard of the API at LONGTAIL_URL on loopback."""

import argparse
import os


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dashboard", description=__doc__)
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--address", default="127.0.0.1")
    arguments = parser.parse_args()
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")  # else uvicorn would believe every process of this machine for whom it asks
    from dashboard.server import app

    app.run(config={"server.port": arguments.port, "server.address": arguments.address})


if __name__ == "__main__":
    main()
