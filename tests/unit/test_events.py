from pathlib import Path

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
