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


def pages(monkeypatch: pytest.MonkeyPatch, there: int) -> int:
    """Of 8 requests with 100 pages, at most, where a GPU has room for the pages ``there``."""
    monkeypatch.setattr("engine.rollout.native.layout.factory._left", lambda device: BESIDE + there * PAGE * BYTES)  # noqa: ARG005
    with emulated():
        return make_pages(8, 100 * PAGE, torch.empty(0, device=CUDA), BYTES, None, BESIDE).free


def test_a_cache_takes_what_is_left_but_no_more_than_all_requests_can_need(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pages(monkeypatch, 641) == 640, "one of them is nobody's"
    assert pages(monkeypatch, 10**6) == 800
    assert pages(monkeypatch, 101) == 100, "what one request needs is there"
    with pytest.raises(ModelError, match="has room for 6336 tokens, and one request may need 6400"):
        pages(monkeypatch, 100)
