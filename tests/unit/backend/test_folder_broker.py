import shutil
import threading
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest
from kombu.connection import Connection

from backend.jobs.celery import make_celery
from backend.settings import Settings

MESSAGES = 300


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection]:
    app = make_celery(settings)
    with app.connection_for_write() as connection:
        yield connection
    app.close()


def received(channel: Any) -> list[int]:
    numbers = []
    while True:
        try:
            numbers.append(channel._get("q")["number"])
        except Empty:
            return numbers


def test_messages_come_in_order_and_once(connection: Connection) -> None:
    channel = connection.channel()  # type: ignore[no-untyped-call]
    for number in range(5):
        channel._put("q", {"number": number})
    channel._put("other", {"number": 99})
    assert received(channel) == [0, 1, 2, 3, 4]
    assert received(channel) == []


def test_a_reader_never_sees_half_a_message(connection: Connection) -> None:
    writer, readers = connection.channel(), [connection.channel() for _ in range(2)]  # type: ignore[no-untyped-call]
    filling = "x" * 100_000
    thread = threading.Thread(target=lambda: [writer._put("q", {"number": number, "filling": filling}) for number in range(MESSAGES)])
    thread.start()
    seen: list[int] = []
    while thread.is_alive() or len(seen) < MESSAGES:
        for reader in readers:
            seen += received(reader)
    thread.join()
    assert sorted(seen) == list(range(MESSAGES))


def test_a_deleted_folder_comes_back(connection: Connection, settings: Settings) -> None:
    channel = connection.channel()  # type: ignore[no-untyped-call]
    shutil.rmtree(settings.broker_folder)
    assert received(channel) == []
    channel._put("q", {"number": 1})
    assert received(channel) == [1]


@pytest.mark.parametrize("content", [b"", b"{half", b"\xff"])
def test_what_is_no_message_is_passed_over(connection: Connection, settings: Settings, content: bytes) -> None:
    channel = connection.channel()  # type: ignore[no-untyped-call]
    (settings.broker_folder / "queue" / "0_x.q.msg").write_bytes(content)
    channel._put("q", {"number": 1})
    assert received(channel) == [1]
