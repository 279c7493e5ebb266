"""What an engine prints, without end."""

import os
from pathlib import Path

from backend.jobs.engine import attempt_log

GIB = 2**30


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert attempt_log.last_lines(log, 3) == []
    os.truncate(os.open(log, os.O_CREAT | os.O_WRONLY), 4 * 1024 * GIB)
    with log.open("ab") as file:
        file.write(b"\none\n\n two\xff\n")
    assert attempt_log.last_lines(log, 2) == ["one", " two\N{REPLACEMENT CHARACTER}"]


def test_a_log_is_cut_while_it_is_written_to(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("of another")
    with attempt_log.opened(log) as file:
        for number in range(20_000):
            file.write(b"%09d\n" % number)
        file.flush()
        attempt_log.cut(log, 200_000)
        assert log.stat().st_size == 200_000
        attempt_log.cut(log, 199_999)
        assert log.stat().st_size < attempt_log.TAIL_BYTES + 100
        file.write(b"the end\n")
    assert attempt_log.last_lines(log, 2) == ["000019999", "the end"]
    assert log.read_text().startswith("[longtail: what was printed before is cut off]\n")
