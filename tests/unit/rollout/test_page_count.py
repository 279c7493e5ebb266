"""How many pages a cache has."""

import pytest
import torch
from checked_graphs import emulated

from engine.bench.emulated_cuda.memory import CUDA
from engine.errors import ModelError
from engine.rollout.native.layout.factory import make_pages
from engine.rollout.native.layout.page_table import PAGE

BYTES, BESIDE = 1000, 10**7
"""Of a position, and what is to be left."""


def pages(monkeypatch: pytest.MonkeyPatch, there: int, width: int = 64) -> int:
    """Of 8 requests with 100 pages, at most, where a GPU has room for the pages ``there``."""
    monkeypatch.setattr("engine.rollout.native.layout.factory._left", lambda device: BESIDE + there * PAGE * BYTES)  # noqa: ARG005
    with emulated():
        return make_pages(8, 100 * PAGE, torch.empty(0, device=CUDA), BYTES, width, None, BESIDE).free


def test_a_few_bytes_more_or_less_are_the_same_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is in the shapes of compiled kernels."""
    counts = {pages(monkeypatch, there) for there in range(641, 655, 2)}
    assert counts == {640}, "one of them is nobody's"
    assert all(pages(monkeypatch, there) > 0.93 * there for there in range(130, 700, 57))
    assert pages(monkeypatch, 10**6) == 800
    assert pages(monkeypatch, 104) == 100, "what one request needs is there"
    with pytest.raises(ModelError, match="has room for 6336 tokens, and one request may need 6400"):
        pages(monkeypatch, 100)


def test_rows_are_found_by_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    width = 2**17
    assert pages(monkeypatch, 10**6, width) == 2**31 // (PAGE * width) - 1
