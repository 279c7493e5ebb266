"""``python -m backend.api`` serves the API, with limits for clients that are slow or too many."""

import gc
import sys

from backend import logs
from backend.api.app import create_app
from backend.api.server import ApiServer, allow_open_files
from backend.settings import Settings
from backend.start_faults import told

FAILED_TO_START = 3


def main() -> None:
    with told():
        settings = Settings()
        logs.configure(settings)
        app = create_app(settings)
    allow_open_files()
    server = ApiServer(app, settings)
    gc.collect()
    gc.freeze()  # what is there by now stays; to look through all of it now and then would have every request wait for 100 ms
    server.run()
    if not server.started:
        sys.exit(FAILED_TO_START)


if __name__ == "__main__":
    main()
