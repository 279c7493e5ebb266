import os
import resource
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import CheckpointError, ConfigError, DataError, LongtailError, StoppedError, TakenOverError, WorkerLostError
from engine.events import EventWriter, Log, read


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


def test_whoever_sleeps_while_it_takes_over_is_succeeded_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may neither take the folder back nor write into the file of the one that goes on."""
    path = tmp_path / "events.jsonl"
    with closing(EventWriter(path)) as first:
        first.write(Log(level="info", message="one"))
    later: list[EventWriter] = []

    def sleep(_: int) -> None:
        monkeypatch.undo()
        later.append(EventWriter(path, take_over=True))
        later[0].write(Log(level="info", message="two"))

    monkeypatch.setattr(os, "fsync", sleep)
    with pytest.raises(TakenOverError, match=f"taken over {tmp_path}"):
        EventWriter(path, take_over=True)
    later[0].fence()
    later[0].write(Log(level="info", message="three"))
    later[0].close()
    assert [event.message for event in read(path) if isinstance(event, Log)] == ["one", "two", "three"]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_a_crash_of_the_machine_has_left_in_a_file_is_no_event(tmp_path: Path) -> None:
    """A run tells of its drafter by what it reads there, at its very end."""
    path = tmp_path / "events.jsonl"
    for message, rest in (("one", b"\0\0\0\0\n\xff{\n{}\n"), ("two", b'{"kind":"of a later version"}\n\0\0'), ("three", b"")):
        with closing(EventWriter(path)) as writer:
            writer.write(Log(level="info", message=message))
        with path.open("ab") as file:
            file.write(rest)
    assert [event.message for event in read(path) if isinstance(event, Log)] == ["one", "two", "three"]


@pytest.mark.parametrize("out", ["a file/run", "/proc/run"])
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a file").touch()
    with pytest.raises(ConfigError, match=f"--out: {out}/events.jsonl cannot be written: .+; choose another folder"):
        EventWriter(Path(out) / "events.jsonl")


def test_a_folder_that_is_removed_meanwhile_is_told(tmp_path: Path) -> None:
    with closing(EventWriter(tmp_path / "run" / "events.jsonl")) as writer:
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(ConfigError, match=r"run/events\.jsonl was removed while the run wrote it; leave its folder until"):
            writer.fence()


def fill(path: Path) -> None:
    with EventWriter(path) as writer:
        writer.write(Log(level="info", message="one"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 9, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        writer.write(Log(level="info", message="two"))


def test_a_full_disk_is_told_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(CheckpointError, match=r"events\.jsonl cannot be written: is the disk full \(.+\)\? Make room"):
            fill(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with closing(EventWriter(path)) as second:
        second.write(Log(level="info", message="three"))
    assert [event.message for event in read(path) if isinstance(event, Log)] == ["one", "three"]


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
