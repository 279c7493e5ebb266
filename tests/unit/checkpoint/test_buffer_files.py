"""A buffer's entries on disk: what a checkpoint names is there, whatever was killed or lost."""

import errno
import gc
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from weakref import ref

import pytest
import torch

from engine.checkpoint import storage
from engine.checkpoint.buffer_files import BufferFiles, write_entries
from engine.checkpoint.verification import newest
from engine.drafter.data_buffer import DataBuffer, Entry
from engine.errors import CheckpointError

WIDTH, PROMPT, TOKENS, PER_STEP = 2048, 2, 33, 8
LIMIT = 100 * (TOKENS * 8 + (TOKENS - 1) * WIDTH * 2)
ROOT = Path(__file__).parents[3]
SAVES_UNTIL_KILLED = """
import sys
from pathlib import Path
sys.path[:0] = ["tests/unit/checkpoint"]
from test_buffer_files import save_steps

save_steps(Path(sys.argv[1]))
"""


def fill(buffer: DataBuffer, step: int) -> None:
    """The responses of a step; the id of each decides its content."""
    for number in range(step * PER_STEP, (step + 1) * PER_STEP):
        buffer.add(step, [number, *range(1, TOKENS)], PROMPT, torch.full((TOKENS - 1, WIDTH), float(number % 256)))


def resumed(folder: Path, name: str = "buffer_0") -> tuple[DataBuffer, BufferFiles, int]:
    """From the newest checkpoint in ``folder``, with the step to go on with."""
    buffer = DataBuffer(LIMIT)
    files = BufferFiles(folder, name, buffer)
    found = newest(folder) if folder.is_dir() else None
    if found:
        files.load(storage.read(found.path / "buffer.json"))
    return buffer, files, found.step + 1 if found else 0


def save(folder: Path, step: int, files: BufferFiles) -> None:
    storage.save(folder, step, {"buffer.json": files.index().result()})
    storage.prune(folder, 2)


def write(files: BufferFiles) -> None:
    """As ``write_new``, and waits for that."""
    files.write_new()
    files._thread.submit(lambda: None).result()


def save_steps(folder: Path) -> None:
    """Goes on for ever, with a checkpoint every third step, and tells of each."""
    buffer, files, step = resumed(folder)
    while True:
        fill(buffer, step)
        files.write_new()
        if step % 3 == 2:
            save(folder, step, files)
            print(step, flush=True)
        step += 1


def check(buffer: DataBuffer, steps: int) -> None:
    """It holds the last hundred responses of ``steps`` steps."""
    entries = buffer.since(0)
    assert [entry.id for entry in entries] == list(range(max(0, steps * PER_STEP - 100), steps * PER_STEP))
    for entry in entries:
        assert (entry.step, entry.tokens[0].item(), entry.prompt) == (entry.id // PER_STEP, entry.id, PROMPT)
        assert (entry.features == entry.id % 256).all()


def test_a_kill_at_any_moment_leaves_all_that_the_newest_checkpoint_names(tmp_path: Path) -> None:
    """Several times in a row, each run going on from what the one before left."""
    pause = random.Random(0)
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", SAVES_UNTIL_KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout
        told = [process.stdout.readline() for _ in range(pause.randint(1, 12))]
        time.sleep(pause.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.read().splitlines()
        assert process.wait() == -signal.SIGKILL
        buffer, _, step = resumed(tmp_path)
        assert step > int(told[-1])
        check(buffer, step)


def test_windows_of_a_long_response_come_back_as_they_were(tmp_path: Path) -> None:
    buffer, files, _ = resumed(tmp_path)
    fill(buffer, 0)
    buffer.add(1, range(4000), PROMPT, torch.zeros(3999, WIDTH))
    save(tmp_path, 1, files)
    found, expected = ([(entry.id, entry.window, len(entry.tokens)) for entry in each.since(0)] for each in (resumed(tmp_path)[0], buffer))
    assert found == expected
    assert [window.number for _, window, _ in found if window] == [0, 1, 2]


def test_a_save_writes_what_is_new_only(tmp_path: Path) -> None:
    buffer, files, _ = resumed(tmp_path)
    for step in range(3):
        fill(buffer, step)
        write(files)
    save(tmp_path, 2, files)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "buffer_0").iterdir()}
    assert len(before) == 3
    fill(buffer, 3)
    save(tmp_path, 3, files)
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "buffer_0").iterdir()}
    assert after.items() > before.items()
    assert len(after) == 4


def test_without_a_checkpoint_files_stay_while_the_buffer_has_something_of_them(tmp_path: Path) -> None:
    """And what a checkpoint names in any case."""
    buffer, files, _ = resumed(tmp_path)
    for step in range(60):
        fill(buffer, step)
        write(files)
        if step in (5, 6):
            save(tmp_path, step, files)
        if step == 58:
            assert [entry.id for entry in resumed(tmp_path)[0].since(0)] == list(range(7 * PER_STEP))
    assert len(list((tmp_path / "buffer_0").iterdir())) == 7 + 13, "7 of checkpoints, and 13 hold a hundred responses"
    save(tmp_path, 59, files)
    check(resumed(tmp_path)[0], 60)


def test_a_disk_that_is_slower_than_the_run_keeps_nothing_that_the_buffer_has_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_slowly(path: Path, entries: Sequence[Entry]) -> None:
        begun.set()
        free.wait()
        write_entries(path, entries)

    begun, free = Event(), Event()
    monkeypatch.setattr("engine.checkpoint.buffer_files.write_entries", write_slowly)
    buffer, files, _ = resumed(tmp_path)
    known = []
    for step in range(40):
        fill(buffer, step)
        known += [ref(entry) for entry in buffer.since(step * PER_STEP)]
        files.write_new()
        begun.wait()
    gc.collect()
    kept = [number for number, entry in enumerate(known) if entry() is not None]
    free.set()
    assert kept == [*range(PER_STEP), *range(40 * PER_STEP - 100, 40 * PER_STEP)], "of those dropped only what is being written"
    save(tmp_path, 39, files)
    assert len(list((tmp_path / "buffer_0").iterdir())) == 1
    check(resumed(tmp_path)[0], 40)


def test_writes_that_fail_keep_no_more_than_one_of_them_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next checkpoint, which may be far, tells of it."""

    def fail(path: Path, _entries: Sequence[Entry]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("engine.checkpoint.buffer_files.write_entries", fail)
    buffer, files, _ = resumed(tmp_path)
    known = []
    for step in range(40):
        fill(buffer, step)
        known += [ref(entry) for entry in buffer.since(step * PER_STEP)]
        write(files)
    gc.collect()
    kept = [number for number, entry in enumerate(known) if entry() is not None]
    assert kept == [*range(PER_STEP), *range(40 * PER_STEP - 100, 40 * PER_STEP)]
    with pytest.raises(CheckpointError, match="No space left on device"):
        files.index().result()


def test_files_go_once_two_checkpoints_have_no_use_for_them(tmp_path: Path) -> None:
    buffer, files, _ = resumed(tmp_path)
    for step in range(40):
        fill(buffer, step)
        write(files)
        if step % 10 == 9:
            save(tmp_path, step, files)
            for kept in (path for path in tmp_path.glob("step_*")):
                restored = DataBuffer(LIMIT)
                BufferFiles(tmp_path, "buffer_0", restored).load(storage.read(kept / "buffer.json"))
                check(restored, int(kept.name.removeprefix("step_")) + 1)
    assert len(list((tmp_path / "buffer_0").iterdir())) == 13 + 10, "13 hold a hundred responses"


@pytest.mark.parametrize("loss", ["missing", "damaged"])
def test_a_lost_file_costs_its_entries_only(tmp_path: Path, loss: str) -> None:
    buffer, files, _ = resumed(tmp_path)
    for step in range(3):
        fill(buffer, step)
        write(files)
    save(tmp_path, 2, files)
    lost = tmp_path / "buffer_0" / f"{PER_STEP:09d}.safetensors"
    if loss == "missing":
        lost.unlink()
    else:
        lost.write_bytes(lost.read_bytes()[:-1] + b"x")
    buffer, files, step = resumed(tmp_path)
    assert [entry.id for entry in buffer.since(0)] == [*range(8), *range(16, 24)]
    fill(buffer, step)
    save(tmp_path, 3, files)
    assert [entry.id for entry in resumed(tmp_path)[0].since(0)] == [*range(8), *range(16, 32)]


def test_a_worker_that_takes_over_anothers_buffer_writes_its_own(tmp_path: Path) -> None:
    buffer, files, _ = resumed(tmp_path)
    fill(buffer, 0)
    save(tmp_path, 0, files)
    buffer, files, _ = resumed(tmp_path, "buffer_1")
    check(buffer, 1)
    save(tmp_path, 1, files)
    assert [path.name for path in (tmp_path / "buffer_1").iterdir()] == ["000000000.safetensors"]
    check(resumed(tmp_path, "buffer_1")[0], 1)


def test_an_empty_buffer_survives_a_round_trip(tmp_path: Path) -> None:
    _, files, _ = resumed(tmp_path)
    save(tmp_path, 0, files)
    buffer, _, _ = resumed(tmp_path)
    assert (len(buffer), buffer.mix()) == (0, [])


def test_prompts_and_ids_go_on_after_a_resume(tmp_path: Path) -> None:
    """Who is held out depends on them."""
    buffer, files, _ = resumed(tmp_path)
    fill(buffer, 0)
    save(tmp_path, 0, files)
    other, _, _ = resumed(tmp_path)
    for each in (buffer, other):
        fill(each, 1)
    assert [(entry.id, entry.group) for entry in buffer.since(0)] == [(entry.id, entry.group) for entry in other.since(0)]


def test_a_full_disk_is_told_in_a_line(tmp_path: Path) -> None:
    """A limit on file sizes stands for it."""
    buffer, files, _ = resumed(tmp_path)
    fill(buffer, 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(
            CheckpointError,
            match=r"000000000\.safetensors cannot be written: is the disk full \(.+\)\? Make room, then resume or start again$",
        ):
            files.index().result()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
