"""Pages: who holds which, that nothing is lost or given twice, and how much is held."""

import random

import numpy as np
import pytest

from engine.config import SpeculationConfig
from engine.rollout.native.layout.page_table import OutOfPagesError, PageTable
from engine.rollout.native.reach import written_behind

DRAFTS = max(written_behind(each, on_cpu=False) for each in SpeculationConfig().strategies)
"""Positions that the default strategies may write to behind a request."""


def held(table: PageTable, slot: int) -> list[int]:
    return [page for page in table.entries[slot].tolist() if page]


def check(table: PageTable, pages: int) -> None:
    """Every page is free or in a table, and lies at one place of all tables that have it."""
    used = {page for row in table.entries.tolist() for page in row if page}
    assert table.used == len(used)
    assert table.free == pages - len(used)
    assert sorted(used | set(table._free)) == list(range(1, pages + 1))
    assert all(len({place for _, place in np.argwhere(table.entries == page)}) == 1 for page in used)


def test_a_slot_has_as_many_pages_as_its_positions_take() -> None:
    table = PageTable(2, 40, 5, page=8)
    for length, pages in ((1, 1), (8, 1), (9, 2), (3, 2), (24, 3)):
        table.grow(0, length)
        assert len(set(held(table, 0))) == len(held(table, 0)) == pages
    table.grow(1, 16)
    with pytest.raises(OutOfPagesError, match="slot 1 lacks 1 pages for 17 positions, 0 are free"):
        table.grow(1, 17)
    assert len(held(table, 1)) == 2
    assert table.missing([25, 33]) == 1 + 3
    check(table, 5)


@pytest.mark.parametrize(("drafts", "least"), [(DRAFTS, 1829), (0, 1220)], ids=["default strategies", "plain"])
def test_from_which_length_on_a_twentieth_more_is_held_than_is_written(drafts: int, least: int) -> None:
    """In the product's pages, of which a request has one for its next token, too; as ``engine/README.md`` says."""
    table = PageTable(1, 1, 0)
    more = {length: table.pages(length + drafts + 1) * table.page / length for length in range(1, 40_000)}
    assert max(ratio for length, ratio in more.items() if length >= least) <= 1.05 < more[least - 1]
    assert max(more[length] for length in range(8_192, 8_192 + table.page)) < 1.012
    assert max(more[length] for length in range(32_768, 32_768 + table.page)) < 1.003


def test_what_128_requests_of_8_to_32_k_tokens_hold() -> None:
    rng = random.Random(0)
    written = [rng.randrange(8_192, 32_768) for _ in range(128)]
    table = PageTable(128, 33_000, 70_000)
    for slot, length in enumerate(written):
        for reached in (length // 3, length + DRAFTS + 1):
            table.grow(slot, reached)
    assert sum(written) < table.used * table.page < 1.006 * sum(written)


def test_siblings_share_full_pages_and_copy_the_one_they_write_to() -> None:
    table = PageTable(4, 64, 20, page=8)
    table.grow(0, 30)
    for prompt, target, shared in ((21, 1, 2), (24, 2, 2), (25, 3, 3)):  # the last token's page is written to
        source, copy = table.share(0, target, prompt)
        assert held(table, target)[:shared] == held(table, 0)[:shared]
        assert (source, [copy]) == (held(table, 0)[shared], held(table, target)[shared:])
        assert copy not in held(table, 0)
    assert table.used == 4 + 3
    check(table, 20)


def test_a_shared_page_is_free_once_nobody_has_it() -> None:
    table = PageTable(3, 32, 10, page=8)
    table.grow(0, 17)
    shared = held(table, 0)[:2]
    table.share(0, 1, 17)
    table.share(1, 2, 17)
    for slot in (0, 1):
        table.release(slot)
        assert held(table, 2)[:2] == shared
        assert not set(shared) & set(table._free)
    table.release(2)
    assert table.free == 10
    table.release(2)
    assert table.free == 10, "again is no error, and frees nothing twice"
    check(table, 10)


def test_what_is_handed_over_stays_where_it_is() -> None:
    table = PageTable(2, 32, 10, page=8)
    table.grow(0, 9)
    table.grow(1, 20)
    pages = held(table, 1)
    table.hand_over(1, 0)
    assert (held(table, 0), held(table, 1), table.free) == (pages, [], 7)
    table.grow(0, 25)
    assert held(table, 0)[:3] == pages
    check(table, 10)


def test_whoever_comes_and_goes_only_what_is_needed_is_held() -> None:
    """So pages do not fragment: any free one serves. Random requests, siblings and endings; what is held is counted independently."""
    rng, page, pages, slots = random.Random(0), 8, 60, 9
    table = PageTable(slots, 200, pages, page)
    lengths, prompts = [0] * slots, [0] * slots
    for _ in range(3000):
        slot, other = rng.randrange(slots), rng.randrange(slots)
        try:
            if not lengths[slot] and lengths[other] and rng.random() < 0.5:
                table.share(other, slot, prompts[other])
                lengths[slot] = prompts[slot] = prompts[other]
            elif not lengths[slot]:
                lengths[slot] = prompts[slot] = rng.randint(1, 40)
                table.grow(slot, lengths[slot])
            elif rng.random() < 0.2:
                table.release(slot)
                lengths[slot] = 0
            else:
                table.grow(slot, min(200, lengths[slot] + 5))
                lengths[slot] = min(200, lengths[slot] + 5)
        except OutOfPagesError:
            assert table.free <= 5
            table.release(slot)
            lengths[slot] = 0
        check(table, pages)
        assert table.used * page <= sum(lengths) + (page - 1) * sum(map(bool, lengths))
    for slot in range(slots):
        table.release(slot)
    assert table.free == pages
