"""Writing events to a run's file."""

import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from engine.errors import CheckpointError, ConfigError, LongtailError, StoppedError, TakenOverError
from engine.events.kinds import AnyEvent, Log
from engine.own_folders import lock


class EventWriter:
    """Appends events to a JSONL file, a whole line at a time; a later writer on the same file goes on with its ``seq``. As a context it
    tells of an error that the user can mend."""

    def __init__(self, path: Path, on_event: Callable[[AnyEvent], None] | None = None, take_over: bool = False) -> None:
        """``on_event`` sees each event, too. ConfigError if another process still writes the file. To ``take_over`` from it is for who
        knows that it has lost the run: what it writes from then on, perhaps as it wakes up from a pause, goes nowhere."""
        self._on_event, self._path = on_event, path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._next = _own(path, take_over)
        except OSError as error:
            raise ConfigError(f"--out: {path} cannot be written: {error.strerror or error}; choose another folder") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, LongtailError) and not isinstance(error, StoppedError):
            with suppress(CheckpointError):  # the disk is full still
                self.write(Log(level="error", message=str(error), code=error.code))
        with suppress(OSError):
            self.close()

    def fence(self) -> None:
        """TakenOverError once there is a later writer: the folder is another engine's then, and nothing of ours may get into it."""
        try:
            ours = os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:
            raise ConfigError(f"--out: {self._path} was removed while the run wrote it; leave its folder until it has ended") from None
        if not ours:
            raise _taken_over(self._path)

    def write(self, event: AnyEvent) -> None:
        line = event.model_copy(update={"seq": self._next}).model_dump(mode="json")
        try:
            self._file.write(f"{_json(line)}\n".encode())
            self._file.flush()
        except OSError as error:
            raise CheckpointError(
                f"{self._path} cannot be written: is the disk full ({error.strerror})? Make room, then resume or start again"
            ) from None
        self._next += 1
        if self._on_event:
            self._on_event(event)

    def close(self) -> None:
        self._file.close()


def _json(line: dict[str, Any]) -> str:
    """With a question mark for each half of a surrogate pair, which Python has for bytes of a file name that are no text: nobody reads a
    line with one."""
    text = json.dumps(line, separators=(",", ":"))
    if "\\ud" not in text:
        return text
    whole = json.dumps(line, ensure_ascii=False).encode(errors="replace")
    return json.dumps(json.loads(whole), separators=(",", ":"))


def _own(path: Path, take_over: bool) -> tuple[BinaryIO, int]:
    """A copy in the place of the file, which this process alone writes, without a last line that a killed writer left without its newline;
    and its number of lines. Who is still at it while a later one begins loses its copy, and with it the folder."""
    aside, lines = path.with_name(f".{path.name}.{secrets.token_hex(4)}"), 0
    with path.open("ab+") as file:
        free = lock(file.fileno()) and os.path.samestat(os.fstat(file.fileno()), path.stat())
        if not (free or take_over):
            raise ConfigError(f"--out: another process is writing {path}; wait for it or stop it, or choose another folder")
        for left in path.parent.glob(f".{path.name}.*"):
            left.unlink(missing_ok=True)
        copy = aside.open("wb")
        lock(copy.fileno())
        file.seek(0)
        for line in file:
            if line.endswith(b"\n"):
                copy.write(line)
                lines += 1
        copy.flush()
        os.fsync(copy.fileno())
        try:
            aside.replace(path)
        except FileNotFoundError:
            raise _taken_over(path) from None
    return copy, lines


def _taken_over(path: Path) -> TakenOverError:
    return TakenOverError(f"another engine has taken over {path.parent} meanwhile, and goes on there")
