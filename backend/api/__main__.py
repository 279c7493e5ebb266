"""``python -m backend.api`` serves the API, with limits for clients that are slow or too many."""

import gc

import uvicorn

from backend import logs
from backend.api.app import create_app
from backend.api.header_timeout import HeaderTimeoutProtocol
from backend.settings import Settings

KEEP_ALIVE_SECONDS = 10
CONNECTIONS = 1000
HEADER_BYTES = 64 * 1024
SHUTDOWN_SECONDS = 5
"""For requests that are under way; a stream of events would never end by itself."""


def main() -> None:
    settings = Settings()
    logs.configure(settings)
    app = create_app(settings)
    gc.collect()
    gc.freeze()  # what is there by now stays; to look through all of it now and then would have every request wait for 100 ms
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        http=HeaderTimeoutProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


if __name__ == "__main__":
    main()
