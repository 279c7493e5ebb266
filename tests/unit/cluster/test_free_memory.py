"""Freed memory goes back to the machine, whatever lies above it."""

import ctypes

import psutil
import pytest

from engine.cluster.free_memory import give_back

BLOCK, BLOCKS = 100_000, 2000


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_what_is_freed_between_things_in_use_is_given_back() -> None:
    library, process = ctypes.CDLL(None), psutil.Process()
    library.malloc.restype, library.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    blocks = [library.malloc(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    for place, block in enumerate(blocks):
        if place % 10:
            library.free(block)
    kept = process.memory_info().rss
    give_back()
    assert kept - process.memory_info().rss > 0.7 * BLOCK * BLOCKS
    for block in blocks[::10]:
        library.free(block)
