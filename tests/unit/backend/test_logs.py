"""Log lines: JSON for machines, text for people, secrets for nobody."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from backend import logs
from backend.logs import HIDDEN, JsonLines, PlainText
from longtail.schemas.credentials import LinkKey, Secret


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a logger of our format has written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("a.test")
    logger.addHandler(handler)
    logger.propagate, before = False, logger.propagate
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.propagate = before


def lines(written: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_line_says_when_how_bad_who_and_about_what(written: io.StringIO) -> None:
    with logs.about(run_id="r1", attempt=2):
        logging.getLogger("a.test").warning("lost %s", "it", extra={"status": 503})
    logging.getLogger("a.test").info("later")
    first, second = lines(written)
    assert str(first.pop("time")).endswith("+00:00")
    assert first == {"level": "warning", "logger": "a.test", "message": "lost it", "run_id": "r1", "attempt": 2, "status": 503}
    assert "run_id" not in second


def test_a_message_of_many_lines_is_one_line(written: io.StringIO) -> None:
    try:
        raise ValueError("one\ntwo\x1b[31m")
    except ValueError:
        logging.getLogger("a.test").exception("it\nfailed")
    (line,) = lines(written)
    assert line["message"] == "it\nfailed"
    assert "ValueError: one\ntwo" in str(line["exception"])
    assert "\x1b" not in written.getvalue()


def test_threads_do_not_mix_what_they_are_about(written: io.StringIO) -> None:
    inside = threading.Barrier(2)

    def work(run_id: str) -> None:
        with logs.about(run_id=run_id):
            inside.wait()
            logging.getLogger("a.test").info("%s", run_id)

    threads = [threading.Thread(target=work, args=(run_id,)) for run_id in ("r1", "r2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((line["message"], line["run_id"]) for line in lines(written)) == [("r1", "r1"), ("r2", "r2")]


SECRET = Secret.new("0123456789abcdef")
LINK = LinkKey.of(SECRET.id, b"a server's").link("/api/v1/artifacts/0123456789abcdef/download")


@pytest.mark.parametrize(
    ("text", "secret", "left"),
    [
        (f"token {SECRET.text} refused", SECRET.text, f"token {HIDDEN} refused"),
        (f"GET /x?link={LINK} HTTP", LINK, f"GET /x?link={HIDDEN} HTTP"),
        ("postgresql+psycopg://longtail:s3cret@db/longtail", "s3cret", f"postgresql+psycopg://{HIDDEN}@db/longtail"),
        ("redis://:pa55word@redis:6379/0 is away", "pa55word", f"redis://{HIDDEN}@redis:6379/0 is away"),
        ("signed with whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ", f"signed with {HIDDEN}"),
        ("ada@example.org wrote to http://example.org/a", "", "ada@example.org wrote to http://example.org/a"),
    ],
    ids=["token", "link", "database", "redis", "webhook", "harmless"],
)
@pytest.mark.parametrize("formatter", [JsonLines(), PlainText()], ids=["json", "text"])
def test_secrets_are_hidden(formatter: logging.Formatter, text: str, secret: str, left: str) -> None:
    error = ValueError(text)
    record = logging.LogRecord("a", logging.ERROR, __file__, 1, "%s", (text,), (ValueError, error, None))
    record.extra = text
    written = formatter.format(record)
    assert left in written
    assert not secret or secret not in written


def say(log_format: str, level: str = "info") -> str:
    code = (
        "import logging; from backend import logs; from backend.settings import Settings; logs.configure(Settings());"
        "logging.getLogger('x').debug('finest'); logging.getLogger('x').info('hello'); logging.getLogger('httpx').info('POST to a secret')"
    )
    environment = os.environ | {"LONGTAIL_LOG_FORMAT": log_format, "LONGTAIL_LOG_LEVEL": level}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stderr


def test_a_process_that_no_terminal_sees_writes_json() -> None:
    assert [json.loads(line)["message"] for line in say("auto").splitlines()] == ["hello"]
    assert [json.loads(line)["message"] for line in say("json", "debug").splitlines()] == ["finest", "hello"]
    assert say("text").endswith("INFO x: hello\n")
