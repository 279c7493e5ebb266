import ctypes
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.cluster.ray_session import MOST_OBJECT_STORE_BYTES, OBJECT_STORE_BYTES, object_store_bytes, ray_session
from engine.config import RunConfig
from engine.errors import AttemptError, StoppedError


def test_a_ray_that_does_not_start_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(**_: Any) -> None:
        raise Exception("The current node timed out\nduring startup.")

    monkeypatch.setattr("ray.init", late)
    with (
        pytest.raises(AttemptError, match=r"too busy: The current node timed out during startup\.; start again later"),
        ray_session(RunConfig().cluster),
    ):
        pass


def test_ray_has_room_for_its_sockets_wherever_temporary_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a socket's path there are 107 bytes, and the longest number of a process has 7 digits."""
    asked = dict[str, Any]()
    monkeypatch.setattr("ray.init", lambda **given: asked.update(given))
    (long := tmp_path / "as-long-as-those-of-jobs").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with ray_session(RunConfig().cluster):
        folder = Path(asked["_temp_dir"])
        assert folder.is_dir()
        digits = 7 - len(str(os.getpid()))
        assert len(f"{folder}/session_2026-11-27_19-18-44_213330_1234567/sockets/plasma_store") + digits <= 107
    assert not folder.exists()


def test_a_mistake_is_no_reason_to_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(**_: Any) -> None:
        raise ValueError("num_cpus")

    monkeypatch.setattr("ray.init", wrong)
    with pytest.raises(ValueError, match="num_cpus"), ray_session(RunConfig().cluster):
        pass


@pytest.mark.parametrize(
    ("shared", "available", "expected"),
    [
        (8, 12, 2 * 2**30),
        (64, 6, 1.5 * 2**30),
        (64, 1, OBJECT_STORE_BYTES),
        (0, 12, OBJECT_STORE_BYTES),
        (900, 900, MOST_OBJECT_STORE_BYTES),
    ],
)
def test_the_object_store_leaves_memory_for_all_else(monkeypatch: pytest.MonkeyPatch, shared: int, available: int, expected: float) -> None:
    """In GiB. Shared memory is as large as half of a machine's or more, however little of that is free: Ray does not start where the
    store is larger than what is available."""
    monkeypatch.setattr("engine.cluster.ray_session.SHARED_MEMORY", Path("/"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=shared * 2**30))
    monkeypatch.setattr("engine.cluster.host_memory.free", lambda: available * 2**30)
    assert object_store_bytes() == expected


def test_who_is_told_to_end_is_not_ended_by_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler goes past Python's: here one that ignores the signal."""
    ignored, told = ctypes.c_void_p(1), list[int]()
    monkeypatch.setattr("ray.init", lambda **_: ctypes.CDLL(None).signal(int(signal.SIGTERM), ignored))
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        with ray_session(RunConfig().cluster):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told == [signal.SIGTERM]


def test_who_is_told_to_end_while_ray_starts_ends_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**given: Any) -> None:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))  # as Ray does first
        folders.append(Path(given["_temp_dir"]))
        os.kill(os.getpid(), signal.SIGTERM)

    def end(*_: object) -> None:
        raise StoppedError("told to end")

    folders = list[Path]()
    monkeypatch.setattr("ray.init", init)
    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(StoppedError), ray_session(RunConfig().cluster):
            pass
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not folders[0].exists()


def test_a_ray_that_does_not_start_leaves_no_handler_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**given: Any) -> None:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
        folders.append(Path(given["_temp_dir"]))
        raise Exception("timed out")

    folders = list[Path]()
    monkeypatch.setattr("ray.init", init)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(AttemptError), ray_session(RunConfig().cluster):
        pass
    assert signal.getsignal(signal.SIGTERM) is before
    assert not folders[0].exists()


def test_another_exit_while_ray_starts_is_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: Any) -> None:
        sys.exit("no port is free")

    told = list[int]()
    monkeypatch.setattr("ray.init", init)
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        with pytest.raises(SystemExit, match="no port is free"), ray_session(RunConfig().cluster):
            pass
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told == []
