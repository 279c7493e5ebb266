"""Log lines of all our processes: JSON for machines, plain text on a terminal, and secrets in neither."""

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from backend.settings import Settings

SECRET = re.compile(
    r"lt_[0-9a-f]{16}_[\w-]+"  # tokens, sessions, tickets
    r"|whsec_[\w+/=-]+"
    r"|(?<=link=)[0-9a-f]{16}\.\d+\.[0-9a-f]+"
    r"|(?<=://)[^\s/@\"']+(?=@)",  # a URL's user and password
    re.ASCII,
)
HIDDEN = "***"
QUIET = ("httpx", "httpcore", "celery", "kombu", "alembic")  # what they say below a warning, such as a webhook's URL, is not for the log
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_about: ContextVar[Mapping[str, Any]] = ContextVar("about", default=MappingProxyType({}))


def bind(**facts: Any) -> None:
    """Adds ``facts`` to every line that this task or thread logs from now on."""
    _about.set({**_about.get(), **facts})


@contextmanager
def about(**facts: Any) -> Iterator[None]:
    """Adds ``facts`` to every line that the block logs."""
    token = _about.set({**_about.get(), **facts})
    try:
        yield
    finally:
        _about.reset(token)


class JsonLines(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, what is known (run_id, request_id, route ...), exception."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {"time": time, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        entry |= _facts(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return redacted(json.dumps(entry, default=str))


class PlainText(logging.Formatter):
    """The same for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return " ".join([super().formatMessage(record), *(f"{name}={value!r}" for name, value in _facts(record).items())])

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


def configure(settings: Settings) -> None:
    """All loggers of this process write to stderr, as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    as_json = settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
    handler.setFormatter(JsonLines() if as_json else PlainText())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def redacted(text: str) -> str:
    return SECRET.sub(HIDDEN, text)


def _told(name: str) -> bool:
    """Not what Python writes into each record, nor what a library adds for itself."""
    return name not in _STANDARD and not name.startswith("_")


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {**_about.get(), **{name: value for name, value in vars(record).items() if _told(name)}}
