"""A run that a program carries out by itself, and tells Longtail of."""

import math
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self, SupportsFloat

from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Level
from longtail.schemas.tracking import BATCH_LINES, ERROR_CHARACTERS, LINE_CHARACTERS, NewBatch, NewLine, NewPoints, Receipt
from longtail.transport import ApiError, patiently

SEND_SECONDS = 1.0
BEAT_SECONDS = 30.0
SEND_POINTS = 1000
MOST_WAITING = 1_000_000
TOO_LARGE = 413

End = Literal["succeeded", "failed", "cancelled"]


class TrackedRunApi(Protocol):
    """What a tracker needs of the client."""

    def ingest(self, run_id: str, batch: NewBatch) -> Receipt: ...
    def finish(self, run_id: str, state: End, error: str | None = None) -> Run: ...


class Tracker:
    """``with longtail.track("first try", {"rate": 1e-3}) as run: run.log(step, {"loss": 0.5})``

    ``log`` and ``note`` return at once; a thread sends what there is every second, and signs of life. While the server is away they keep
    it, and send it when it is back: nothing is lost or doubled. Where it stays away for ``patience`` seconds, or refuses, they raise
    ApiError. The run ends with the block: succeeded, failed with its exception, or cancelled by Ctrl-C. ``stop_requested`` is
    true once somebody has cancelled the run; it is for the program to heed that, and to leave the block.
    """

    def __init__(self, client: TrackedRunApi, run: Run, patience: float) -> None:
        self.run, self.stop_requested = run, False
        self._client, self._patience = client, patience
        self._points: list[NewPoints] = []
        self._lines: list[NewLine] = []
        self._changed = threading.Condition()
        self._closing = False
        self._error: ApiError | None = None
        self._thread = threading.Thread(target=self._work, name=f"tracker of {run.id}", daemon=True)
        self._thread.start()

    def log(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """The values of a step by series; later ones replace earlier ones. ValueError for a key or step that cannot be."""
        new = [NewPoints(key=key, points=[(step, _finite(value))]) for key, value in values.items()]
        with self._changed:
            self._changed.wait_for(lambda: len(self._points) < MOST_WAITING or self._error or self._closing)
            self._demand_open()
            self._points += new
            if len(self._points) >= SEND_POINTS:
                self._changed.notify_all()

    def note(self, message: str, level: Level = "info", step: int | None = None) -> None:
        """A line of the run's log."""
        line = NewLine(message=_sendable(message)[:LINE_CHARACTERS], level=level, step=step, time=time.time())
        with self._changed:
            self._demand_open()
            self._lines.append(line)

    def finish(self, state: End = "succeeded", error: str | None = None) -> Run:
        """Sends the rest and closes the run; ApiError if something could not be sent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        if self._error is not None:
            raise self._error
        said = error and _sendable(error)[-ERROR_CHARACTERS:]
        self.run = patiently(lambda: self._client.finish(self.run.id, state, said), self._patience)
        return self.run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.finish("cancelled")
        elif error is None or (isinstance(error, SystemExit) and not error.code):
            self.finish("cancelled" if self.stop_requested else "succeeded")
        elif error is not self._error:
            self.finish("failed", "".join(traceback.format_exception(error)))

    def _demand_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closing:
            raise ValueError(f"run {self.run.id} is finished")

    def _work(self) -> None:
        try:
            heard = time.monotonic()
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._closing or len(self._points) >= SEND_POINTS, SEND_SECONDS)
                    points, self._points = self._points[:SEND_POINTS], self._points[SEND_POINTS:]
                    lines, self._lines = self._lines[:BATCH_LINES], self._lines[BATCH_LINES:]
                    closing = self._closing
                    self._changed.notify_all()
                if points or lines or time.monotonic() - heard > BEAT_SECONDS:
                    self._deliver(points, lines)
                    heard = time.monotonic()
                elif closing:
                    return
        except ApiError as error:
            print(f"longtail: run {self.run.id} is not told about any more: {error}", file=sys.stderr)
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _deliver(self, points: list[NewPoints], lines: list[NewLine]) -> None:
        """In halves if it is too much for the server: nothing of a batch that it refuses is written."""
        batch = NewBatch(id=uuid.uuid4().hex, series=_merged(points), lines=lines)
        try:
            receipt = patiently(lambda: self._client.ingest(self.run.id, batch), self._patience)
        except ApiError as error:
            if error.status != TOO_LARGE or len(points) + len(lines) < 2:
                raise
            middle, line = len(points) // 2, (len(lines) + 1) // 2
            self._deliver(points[:middle], lines[:line])
            self._deliver(points[middle:], lines[line:])
        else:
            self.stop_requested = receipt.cancel_requested


def _finite(value: SupportsFloat) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _merged(points: list[NewPoints]) -> list[NewPoints]:
    """One entry a series."""
    series: dict[str, list[tuple[int, float | None]]] = {}
    for one in points:
        series.setdefault(one.key, []).extend(one.points)
    return [NewPoints(key=key, points=found) for key, found in series.items()]


def _sendable(text: str) -> str:
    """Without halves of surrogate pairs, as file names may have them."""
    return text.encode("utf-8", "replace").decode()
