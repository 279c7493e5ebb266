import socket

import pytest

from backend.stack.child_process import StackError
from backend.stack.ports import Port

HOST = "127.0.0.1"


def test_a_port_that_serves_somebody_is_passed_over_or_refused() -> None:
    with socket.create_server((HOST, 0)) as taken:
        busy = taken.getsockname()[1]
        assert Port(HOST, None, busy).number not in (0, busy)
        with pytest.raises(StackError, match=f"port {busy} .* is not free"):
            Port(HOST, busy, 8000)
    assert Port(HOST, None, busy).number == busy
    assert Port(HOST, 0, busy).number != 0


def test_a_claimed_port_is_nobody_elses_although_nothing_listens_there_yet() -> None:
    mine = Port(HOST, 0, 0)
    assert Port(HOST, None, mine.number).number != mine.number
    with pytest.raises(StackError):
        Port(HOST, mine.number, 0)
    mine.release()
    assert Port(HOST, mine.number, 0).number == mine.number


def test_a_claimed_port_is_kept_from_others_and_its_server_can_take_it() -> None:
    mine = Port(HOST, 0, 0)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, mine.number))
    for _ in range(2):  # as a server that is started again
        with socket.create_server((HOST, mine.number)) as server, socket.create_connection((HOST, mine.number)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    mine.release()
