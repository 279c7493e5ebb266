"""An engine whose cache is full generates what one with room for all does: requests wait, and begin again where they were."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
import torch
from checked_graphs import emulated
from native_cases import (
    NGRAMS,
    TREES,
    Kept,
    RandomTuner,
    chains,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    strategies,
    with_mkl,
    with_random_tuner,
)
from psutil import virtual_memory
from torch import Tensor

from engine.bench.emulated_cuda.memory import CUDA
from engine.errors import ModelError
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.layout.mapped_memory import MappedMemory
from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.layout.slots import ROUNDING, Slots

PAGE = 16
CPU = torch.device("cpu")
ENDS = frozenset({5, 6})


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.rollout.native.layout.factory.PAGE", PAGE)


def watched(engine: NativeEngine) -> list[tuple[int, int]]:
    """Gets, at every step, the positions that the cache holds, and those that the running requests have or may write to."""
    seen: list[tuple[int, int]] = []
    decode = engine._runner.decode

    def step(batch: Sequence[object], *rest: object) -> object:
        drawn = decode(batch, *rest)  # type: ignore[arg-type]
        layout, running = engine._runner.cache.layout, engine._scheduler.running
        assert isinstance(layout, Pages)
        seen.append((layout.table.used * PAGE, sum(response.length + engine._scratch + 1 for response in running) + PAGE * len(running)))
        return drawn

    engine._runner.decode = step  # type: ignore[method-assign,assignment]
    return seen


def outcome(completions: Sequence[Completion]) -> list[object]:
    return [(completion.tokens, completion.logprobs, completion.finish) for completion in completions]


@with_mkl
@pytest.mark.parametrize("temperature", [0.9, 0.0])
def test_responses_have_the_same_bits_in_few_pages(temperature: float) -> None:
    """With chains, trees and suffix drafts in turn, siblings, features of what was written twice, and bytes held by formula."""
    target = make_target(tie_word_embeddings=False)
    drafter, requests = make_guessable(target), make_requests(9, 48, group=3, longest=40)
    sampling = Sampling(temperature, max_new_tokens=70, seed=3)
    roomy = make_engine(target, drafter, strategies((2, 2, 3), suffix=True), end_tokens=ENDS)
    full = make_engine(target, drafter, strategies((2, 2, 3), suffix=True), end_tokens=ENDS, cache_tokens=288)
    for engine in (roomy, full):
        with_random_tuner(engine, RandomTuner(3, more=(TREES[0], *NGRAMS[:1])))
    seen = watched(full)
    kept, again = Kept(), Kept()
    expected, ours = roomy.generate(requests, sampling, keep=kept.keep), full.generate(requests, sampling, keep=again.keep)
    assert outcome(ours) == outcome(expected)
    assert full.take_statistics().preemptions
    assert roomy.take_statistics().preemptions == 0
    assert all(held <= needed for held, needed in seen)
    assert len(kept) == len(requests)
    assert all(torch.equal(kept[request], again[request]) for request in kept)
    layout = full._runner.cache.layout
    assert isinstance(layout, Pages)
    assert layout.table.used == 0


def test_so_they_do_on_a_gpu() -> None:
    """Whose graphs read the pages where they lie."""
    target = make_target(tie_word_embeddings=False)
    drafter, sampling = make_guessable(target), Sampling(max_new_tokens=40, seed=2)
    requests = [Request(each, 0, tuple(range(20))) for each in range(3)]
    expected = make_engine(target).generate(requests, sampling)
    with emulated():
        engine = make_engine(target, drafter, chains(3), slots=4, device=CUDA, cache_tokens=112, max_new_tokens=40)
        seen = watched(engine)
        assert [each.tokens for each in engine.generate(requests, sampling)] == [each.tokens for each in expected]
        assert engine.statistics.preemptions
        assert all(held <= needed for held, needed in seen)


def test_a_cache_that_is_too_small_for_one_request_is_refused() -> None:
    engine = make_engine(make_target(), cache_tokens=20)
    with pytest.raises(ModelError, match=r"room for 32 tokens, and one request may need 48: .*rollout\.cache_tokens"):
        engine.generate(make_requests(2, 48), Sampling(max_new_tokens=30))


def test_siblings_hold_their_prompt_once() -> None:
    target = make_target()
    requests = [Request(each, 0, tuple(range(40)) + (7,) * 9) for each in range(8)]
    engine = make_engine(target, cache_tokens=640)
    layouts: Iterator[int] = count()
    held: list[int] = []
    admit = engine._admit

    def watch() -> None:
        admit()
        layout = engine._runner.cache.layout
        assert isinstance(layout, Pages)
        if next(layouts) == 0:
            held.append(layout.table.used)

    engine._admit = watch  # type: ignore[method-assign]
    engine.generate(requests, Sampling(max_new_tokens=4))
    assert held == [3 + 8], "48 positions of all, and of each its own last one"


def resident() -> int:
    """Bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def fill(store: Tensor, rows: slice) -> None:
    store[:, rows] = 1


def test_a_slot_takes_what_is_written_and_gives_it_back() -> None:
    """In 8 layers; 16 KiB a position, 16 MB a slot."""
    warm, slots = Slots(1, 20, CPU), Slots(4, 1000, CPU)
    fill(warm.zeros(torch.empty(0), 8, warm.rows, 512), warm.span(0, 20))  # torch loads what it needs for that
    before = resident()
    store = slots.zeros(torch.empty(0), 8, slots.rows, 512)
    for slot in range(4):
        slots.grow(slot, 20)
        fill(store, slots.span(slot, 20))
    assert resident() - before < 4 * (20 * 16384 + 8 * 8192) + ROUNDING, "a few positions of each take no more than they need"
    slots.grow(1, 1000)
    fill(store, slots.span(1, 1000))
    full = resident()
    slots.hand_over(2, 1, 20)
    assert full - resident() > 960 * 16384 - ROUNDING
    assert (store[:, slots.span(1, 20)] == 1).all(), "what is needed stays"
    assert (store[:, slots.span(2, 20)] == 1).all()
    now = resident()
    slots.release(3)
    assert abs(resident() - now) < 2**18, "what is little stays, too"
    assert (store[:, slots.span(1, 1000)][:, 30:990] == 0).all()


def test_slots_may_be_longer_than_the_memory_of_the_machine() -> None:
    """As 64 requests of 32,768 tokens are that hardly ever get so long."""
    rows = 2 * virtual_memory().total // 2**12
    memory = MappedMemory(torch.float32, (rows, 2**10))
    memory.tensor[rows // 2] = 1
    assert memory.tensor[rows // 2 - 1 : rows // 2 + 2].sum(1).tolist() == [0, 2**10, 0]


def test_memory_that_shares_a_page_with_what_is_needed_stays() -> None:
    memory = MappedMemory(torch.float32, (2, 3000, 3))
    memory.tensor.fill_(1)
    memory.give_back(1000, 2000)
    assert (memory.tensor[:, :1000] == 1).all()
    assert (memory.tensor[:, 2000:] == 1).all()
    assert (memory.tensor[:, 1400:1600] == 0).all()
    assert memory.row == 2 * 3 * 4
