"""What would fail, wait, or go wrong unnoticed on a GPU."""

import sys
from pathlib import Path
from types import FrameType

HERE = str(Path(__file__).parent)
ENGINE = str(Path(__file__).parents[2])


class DeviceError(Exception):
    """Base of all: says what, and the line of the engine that is at work."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}, at {place()}")


class MixedDevicesError(DeviceError):
    """An operation has tensors of the host and of the device."""


class CaptureError(DeviceError):
    """What a graph is captured of waits for the device, or has a value of the host's, which every replay would have again."""


class StaleGraphError(DeviceError):
    """A replay has memory or numbers of the capture that are not those of now."""


class StreamOrderError(DeviceError):
    """A stream has not waited for what another one does to the same memory."""


def place() -> str:
    """The innermost line of the engine, but for what is in this folder: ``rollout/native/runner.py:12``."""
    frame: FrameType | None = sys._getframe(1)
    while frame:
        file = frame.f_code.co_filename
        if file.startswith(ENGINE) and not file.startswith(HERE):
            return f"{file[len(ENGINE) + 1 :]}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"
