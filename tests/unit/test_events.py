import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import ConfigError, DataError, LongtailError, StoppedError, TakenOverError, WorkerLostError
from engine.events import EventWriter, Log, read
from engine.own_folders import lock


def test_a_writer_goes_on_after_one_that_was_killed_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    first = EventWriter(path)
    first.write(Log(level="info", message="one"))
    first.write(Log(level="info", message="two"))
    first.close()
    with path.open("a", encoding="utf-8") as file:
        file.write('{"kind":"log","mess')
    second = EventWriter(path)
    second.write(Log(level="info", message="three"))
    second.close()
    events = [event for event in read(path) if isinstance(event, Log)]
    assert [(event.seq, event.message) for event in events] == [(0, "one"), (1, "two"), (2, "three")]


def test_what_a_writer_says_after_its_successor_has_begun_goes_nowhere(tmp_path: Path) -> None:
    """As an engine may that wakes up from a pause."""
    path = tmp_path / "events.jsonl"
    paused = EventWriter(path)
    paused.write(Log(level="info", message="one"))
    with pytest.raises(ConfigError, match=r"another process is writing .*events\.jsonl; wait for it or stop it"):
        EventWriter(path)
    second = EventWriter(path, take_over=True)
    paused.write(Log(level="info", message="late"))
    second.write(Log(level="info", message="two"))
    paused.write(Log(level="info", message="later"))
    paused.close()
    with pytest.raises(ConfigError):
        EventWriter(path)
    assert [(event.seq, event.message) for event in read(path) if isinstance(event, Log)] == [(0, "one"), (1, "two")]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_whoever_is_succeeded_is_told_and_takes_nothing_back(tmp_path: Path) -> None:
    """Its last word, that it cannot go on, goes nowhere, too."""
    path = tmp_path / "events.jsonl"
    paused = EventWriter(path)
    paused.fence()
    second = EventWriter(path, take_over=True)
    second.fence()
    with pytest.raises(TakenOverError, match=f"taken over {tmp_path}"):
        paused.fence()
    with pytest.raises(WorkerLostError), paused:
        raise WorkerLostError("gone while it slept")
    second.fence()
    second.write(Log(level="info", message="on"))
    assert [event.message for event in read(path) if isinstance(event, Log)] == ["on"]


def test_two_do_not_take_over_at_the_same_time(tmp_path: Path) -> None:
    path, half = tmp_path / "events.jsonl", tmp_path / ".events.jsonl.copy"
    paused = EventWriter(path)
    paused.write(Log(level="info", message="one"))
    with half.open("ab") as other:
        assert lock(other.fileno())
        other.write(b"a part")
        other.flush()
        with pytest.raises(TakenOverError, match="just taking over"):
            EventWriter(path, take_over=True)
        assert half.read_bytes() == b"a part"
    paused.fence()
    with closing(EventWriter(path, take_over=True)) as second:  # the other one was killed
        second.write(Log(level="info", message="two"))
    assert [(event.seq, event.message) for event in read(path) if isinstance(event, Log)] == [(0, "one"), (1, "two")]


@pytest.mark.parametrize(("error", "told"), [(DataError("no rows"), [("error", "data", "no rows")]), (StoppedError("asked"), [])])
def test_an_error_that_can_be_mended_is_the_last_word(tmp_path: Path, error: LongtailError, told: list[tuple[str, str, str]]) -> None:
    with pytest.raises(LongtailError), EventWriter(tmp_path / "events.jsonl"):
        raise error
    assert [(event.level, event.code, event.message) for event in read(tmp_path / "events.jsonl") if isinstance(event, Log)] == told


def test_half_a_character_leaves_the_events_readable(tmp_path: Path) -> None:
    """As in the name of a file that is no UTF-8."""
    writer = EventWriter(tmp_path / "events.jsonl")
    for message in ("no file \udc80\ud83d", "\U0001f600 é \u2028", "\\ud800"):
        writer.write(Log(level="info", message=message))
    writer.close()
    events = [event.message for event in read(tmp_path / "events.jsonl") if isinstance(event, Log)]
    assert events == ["no file ??", "\U0001f600 é \u2028", "\\ud800"]


def test_a_file_whose_writer_was_killed_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    code = (
        "import sys; from pathlib import Path; from engine.events import EventWriter, Log; writer = EventWriter(Path(sys.argv[1])); "
        "writer.write(Log(level='info', message='one')); print('written', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == b"written\n"
        with pytest.raises(ConfigError):
            EventWriter(path)
        writer.kill()
    with closing(EventWriter(path)) as second:
        second.write(Log(level="info", message="two"))
    assert [(event.seq, event.message) for event in read(path) if isinstance(event, Log)] == [(0, "one"), (1, "two")]
