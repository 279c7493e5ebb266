"""Slots, admission, pre-emption and retirement."""

import random
from itertools import product

import torch

from engine.rollout.interface import PartialResponse, Request
from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.scheduler import Scheduler
from engine.rollout.response import Response, StopCondition


def make(prompts: list[tuple[int, ...]]) -> list[Response]:
    return [Response(Request(i, 0, prompt)) for i, prompt in enumerate(prompts)]


def test_equal_prompts_are_prefilled_once_and_copied() -> None:
    scheduler = Scheduler(make([(1,), (2,), (1,), (2,), (3,), (1,)]), 5)
    assert scheduler.admit() == (range(3), [(0, 3), (1, 4)])
    assert [response.request.prompt for response in scheduler.running] == [(1,), (2,), (3,), (1,), (2,)]
    assert scheduler.admit() == (range(0), [])
    scheduler.running[1].finish = "stop"
    assert scheduler.retire() == [(4, 1)]
    assert scheduler.admit() == (range(4, 4), [(3, 4)])
    assert scheduler.unfinished == 5


def test_a_prompt_is_hashed_once() -> None:
    """A long one takes long."""
    hashed = list[int]()

    class Prompt(tuple[int, ...]):
        def __hash__(self) -> int:
            hashed.append(self[0])
            return super().__hash__()

    scheduler = Scheduler(make([Prompt([number]) for number in (1, 2, 1, 3, 2, 4)]), 2)
    while scheduler.unfinished:
        scheduler.admit()
        scheduler.running[0].finish = "stop"
        scheduler.retire()
    assert sorted(hashed) == [1, 1, 2, 2, 3, 4]


def test_moves_keep_every_running_request_in_its_slot() -> None:
    """Follows the moves in a model of the cache, for random finishing."""
    rng = random.Random(0)
    scheduler = Scheduler(make([(i,) for i in range(500)]), 13)
    cache: list[Response | None] = [None] * 13
    seen: set[int] = set()
    while scheduler.unfinished:
        slots, copies = scheduler.admit()
        assert not copies
        for slot in slots:
            cache[slot] = scheduler.running[slot]
        assert cache[: len(scheduler.running)] == scheduler.running
        for response in scheduler.running:
            response.finish = "stop" if rng.random() < 0.4 else None
        finished = {response.request.id for response in scheduler.running if response.finish}
        for source, target in scheduler.retire():
            assert source >= len(scheduler.running) > target
            cache[target] = cache[source]
        assert cache[: len(scheduler.running)] == scheduler.running
        assert not any(response.finish for response in scheduler.running)
        assert not seen & finished
        seen |= finished
    assert seen == set(range(500))


def room(pages: int, running: list[int]) -> Pages:
    """Of ``pages`` of 8 positions, some taken by the first slots for so many positions."""
    made = Pages(8, 80, pages, torch.device("cpu"), page=8)
    for slot, length in enumerate(running):
        made.grow(slot, length)
    return made


def test_requests_are_admitted_as_long_as_there_are_pages_and_one_more_for_each() -> None:
    prompts = [tuple(range(20)), (1,), tuple(range(20)), (2,)]
    for pages, admitted in ((20, 4), (9, 3), (7, 2), (5, 1), (3, 1)):  # 3 + 1, 1 + 1, the sibling's last + 1, 1 + 1
        scheduler = Scheduler(make(prompts), 8)
        scheduler.admit(room(pages, []), beyond=4)
        assert (len(scheduler.running), len(scheduler.waiting)) == (admitted, 4 - admitted)
    scheduler = Scheduler(make([(1,), (2,)]), 8)
    scheduler.admit(room(3, []))
    assert scheduler.admit(room(3, [1])) == (range(0), []), "the free pages are for the one that runs"


def test_nobody_is_admitted_who_would_have_to_wait_again_at_once() -> None:
    """Drafts may need several pages of each that runs."""
    for beyond, lengths, pages in product((4, 20, 40), ([1], [20, 9], [30, 30, 8]), range(12, 40)):
        made, scheduler = room(pages, lengths), Scheduler(make([(7,) * length for length in (*lengths, 12, 5)]), 8)
        scheduler.running = [scheduler.waiting.popleft() for _ in lengths]
        if made.missing([length + beyond for length in lengths]) > made.free:
            continue
        for slot in scheduler.admit(made, beyond)[0]:
            made.grow(slot, scheduler.running[slot].length)
        assert scheduler.preempt(made, beyond) is None


def test_the_shortest_wait_again_until_the_others_have_room() -> None:
    scheduler = Scheduler(make([(0,) * 30, (1,) * 9, (2,) * 40, (3,) * 8]), 8)
    scheduler.admit()
    lengths = [response.length for response in scheduler.running]
    assert lengths == [8, 9, 30, 40]
    scheduler.running[1].drafted = 5
    made = room(12, lengths)
    assert scheduler.preempt(made, beyond=0) is None
    moves = scheduler.preempt(made, beyond=8)
    assert moves == [(3, 0)]
    made.hand_over(3, 0, 40)
    assert scheduler.preempt(made, beyond=8) == [(2, 1)]
    made.hand_over(2, 1, 30)
    assert [(response.length, response.drafted) for response in scheduler.waiting] == [(9, 0), (8, 0)]
    assert [response.length for response in scheduler.running] == [40, 30]
    assert scheduler.preempt(made, beyond=8) is None
    assert Scheduler(make([(1,)]), 1).preempt(room(0, []), 8) is None, "the last one stays"


def test_a_response_ends_at_its_end_token_or_at_the_limit_inside_a_draft() -> None:
    for tokens, limit, kept, finish in (
        ([5, 6, 7], 9, 3, None),
        ([5, 1, 7], 9, 2, "stop"),
        ([5, 6, 7], 2, 2, "length"),
        ([5, 1, 7], 2, 2, "stop"),
        ([1], 1, 1, "stop"),
    ):
        (response,) = make([(3, 3)])
        assert response.extend(tokens, [-1.0] * len(tokens), StopCondition({1}), limit) == kept
        assert response.tokens == tokens[:kept]
        assert response.finish == finish
        assert response.length == 2 + kept
        assert len(response.logprobs) == kept


def test_a_response_that_was_begun_under_a_higher_limit_ends_with_its_next_token() -> None:
    begun = PartialResponse((5, 6, 7), (-1.0, -1.0, -1.0), ((0, 3),))
    response = Response(Request(0, 0, (3, 3), begun))
    assert response.extend([8, 9], [-1.0, -1.0], StopCondition({1}), 2) == 1
    assert (response.tokens, response.finish) == ([5, 6, 7, 8], "length")
