"""Memory that updates leave free is kept for the next one, and goes back, whatever lies above it, when it has become too much."""

import ctypes
from collections.abc import Iterator

import psutil
import pytest

from engine.cluster.free_memory import FreeMemory, give_back

BLOCK, BLOCKS = 100_000, 2000

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")


class Heap:
    """Blocks of the C library's memory, written to."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.malloc.restype, self._library.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        self._used: list[int] = []

    def take(self) -> None:
        """Frees nine of ten blocks again, so that something in use lies above what is free."""
        blocks = [self._library.malloc(BLOCK) for _ in range(BLOCKS)]
        for block in blocks:
            ctypes.memset(block, 1, BLOCK)
        self._used += blocks[::10]
        for place, block in enumerate(blocks):
            if place % 10:
                self._library.free(block)

    def end(self) -> None:
        for block in self._used:
            self._library.free(block)


@pytest.fixture
def heap() -> Iterator[Heap]:
    give_back()
    heap = Heap()
    yield heap
    heap.end()
    give_back()


@pytest.fixture
def spacious(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has much left."""
    monkeypatch.setattr("engine.cluster.host_memory.free", lambda: 2**40)


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_what_is_freed_between_things_in_use_is_given_back(heap: Heap) -> None:
    heap.take()
    kept = resident()
    give_back()
    assert kept - resident() > 0.7 * BLOCK * BLOCKS


@pytest.mark.usefixtures("spacious")
def test_what_an_update_leaves_free_stays_for_the_next_one(heap: Heap) -> None:
    memory = FreeMemory()
    memory.after_update()
    for _ in range(3):
        heap.take()
        kept = resident()
        memory.after_update()
        assert resident() > kept - 0.1 * BLOCK * BLOCKS


@pytest.mark.usefixtures("spacious")
def test_what_was_free_before_the_first_update_is_not_what_it_needs(heap: Heap) -> None:
    heap.take()
    kept = resident()
    FreeMemory().after_update()
    assert kept - resident() > 0.7 * BLOCK * BLOCKS


@pytest.mark.usefixtures("spacious")
def test_it_goes_back_once_there_is_more_than_updates_need(heap: Heap) -> None:
    before = resident()
    memory = FreeMemory(growth=1 + 0.5 * BLOCK * BLOCKS / before)
    for _ in range(2):
        memory.after_update()
    heap.take()
    memory.after_update()
    assert resident() - before < 0.3 * BLOCK * BLOCKS
    heap.take()
    memory.after_update()  # that update began with nothing, so this much is needed
    assert resident() - before > 0.7 * BLOCK * BLOCKS


def test_it_goes_back_where_the_machine_has_little_left(heap: Heap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cluster.host_memory.free", lambda: resident() // 2)
    memory = FreeMemory()
    for _ in range(2):
        memory.after_update()
    heap.take()
    kept = resident()
    memory.after_update()
    assert kept - resident() > 0.7 * BLOCK * BLOCKS
