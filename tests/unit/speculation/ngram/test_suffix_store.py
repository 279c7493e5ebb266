"""The suffix store against a naive search over all texts."""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from engine.speculation.ngram import suffix_store
from engine.speculation.ngram.suffix_store import Draft, SuffixStore

SHORTEST, LONGEST, NEWEST = 3, 24, 32
AMPLE = 1 << 30


class Store(SuffixStore):
    """With the texts that its requests write."""

    def __init__(self, memory_bytes: int) -> None:
        super().__init__(memory_bytes)
        self.written: dict[int, list[int]] = {}

    def begin(self, request: int, prompt: Sequence[int], written: Sequence[int] = ()) -> None:
        text = list(written)
        super().begin(request, prompt, text)
        self.written[request] = text

    def extend(self, request: int, tokens: Sequence[int]) -> None:
        self.written[request].extend(tokens)

    def end(self, request: int) -> None:
        super().end(request)
        del self.written[request]


@dataclass
class Naive:
    """Every place of a prompt's texts, in the order in which they are read, searched from end to end."""

    prompt: tuple[int, ...]
    texts: dict[int, list[int]] = field(default_factory=dict)
    places: list[tuple[int, int]] = field(default_factory=list)
    read: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.texts[-1] = list(self.prompt)
        self.places += [(-1, offset) for offset in range(len(self.prompt))]

    def begin(self, request: int) -> None:
        self.texts[request] = list(self.prompt)
        self.read[request] = len(self.prompt)

    def extend(self, request: int, tokens: Sequence[int]) -> None:
        self.texts[request] += tokens

    def end(self, request: int) -> None:
        self._read_all()
        del self.read[request]

    def _read_all(self) -> None:
        for request in self.read:
            self.places += [(request, offset) for offset in range(self.read[request], len(self.texts[request]))]
            self.read[request] = len(self.texts[request])

    def draft(self, request: int, limit: int) -> Draft:
        self._read_all()
        known = self.texts[request]
        matches = [self._match(known, self.texts[text][:offset]) for text, offset in self.places]
        best = max(matches, default=0)
        if best < SHORTEST:
            return Draft()
        voters = [place for place, match in zip(self.places, matches, strict=True) if match == best][-NEWEST:][::-1]
        tokens: list[int] = []
        confidence: list[float] = []
        while len(tokens) < limit:
            step = len(tokens)
            votes = [self.texts[text][offset + step] for text, offset in voters if offset + step < len(self.texts[text])]
            if not votes:
                break
            tokens.append(max(votes, key=lambda token: (votes.count(token), -votes.index(token))))
            confidence.append(votes.count(tokens[-1]) / (len(votes) + 1))
            voters = [place for place in voters if self.texts[place[0]][place[1] + step : place[1] + step + 1] == tokens[-1:]]
        return Draft(tuple(tokens), best, tuple(confidence)) if tokens else Draft()

    @staticmethod
    def _match(known: list[int], before: list[int]) -> int:
        length = 0
        while length < min(LONGEST, len(known), len(before)) and known[-1 - length] == before[-1 - length]:
            length += 1
        return length


def filled(prompt: tuple[int, ...], *texts: Sequence[int]) -> Store:
    """Finished requests -1, -2 ... that wrote ``texts``, and request 0 that starts."""
    store = Store(AMPLE)
    for number, text in enumerate(texts):
        store.begin(-1 - number, prompt)
        store.extend(-1 - number, text)
        store.end(-1 - number)
    store.begin(0, prompt)
    return store


def deep_size(thing: object, seen: set[int]) -> int:
    """Bytes of ``thing`` and all it holds."""
    if id(thing) in seen or isinstance(thing, type):
        return 0
    seen.add(id(thing))
    parts: list[object] = [getattr(thing, slot) for slot in getattr(thing, "__slots__", ())]
    if isinstance(thing, dict):
        parts += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set):
        parts += thing
    parts += getattr(thing, "__dict__", {}).values()
    return sys.getsizeof(thing) + sum(deep_size(part, seen) for part in parts)


def spans(letters: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, letters - 1), max_size=most)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_drafts_agree_with_a_search_over_all_texts(data: st.DataObject) -> None:
    letters = data.draw(st.integers(1, 4))
    prompts = [tuple(data.draw(spans(letters, 40))), (letters, *data.draw(spans(letters, 6)))]
    store = Store(AMPLE)
    naive = {prompt: Naive(prompt) for prompt in prompts}
    running: dict[int, tuple[int, ...]] = {}
    for request in range(data.draw(st.integers(1, 8))):
        prompt = data.draw(st.sampled_from(prompts))
        store.begin(request, prompt)
        naive[prompt].begin(request)
        running[request] = prompt
        for _ in range(data.draw(st.integers(1, 5))):
            other = data.draw(st.sampled_from(sorted(running)))
            tokens = data.draw(spans(letters, 30))
            store.extend(other, tokens)
            naive[running[other]].extend(other, tokens)
        for other, key in running.items():
            assert store.draft(other, 5) == naive[key].draft(other, 5)
        if data.draw(st.booleans()):
            ended = data.draw(st.sampled_from(sorted(running)))
            store.end(ended)
            naive[running[ended]].end(ended)
            del running[ended]


@pytest.mark.parametrize("letters", [2, 3, 30])
def test_long_texts_agree_as_well(letters: int) -> None:
    """More places than are compared at once, and than may vote."""
    rng = random.Random(letters)
    prompt = tuple(rng.randrange(letters) for _ in range(50))
    store, naive = Store(AMPLE), Naive(prompt)
    for request in range(4):
        store.begin(request, prompt)
        naive.begin(request)
    for _ in range(150):
        request = rng.randrange(4)
        tokens = [rng.choice((0, rng.randrange(letters))) for _ in range(6)] if rng.random() < 0.6 else [0] * 12
        store.extend(request, tokens)
        naive.extend(request, tokens)
        assert store.draft(request, 6) == naive.draft(request, 6)


def test_the_longest_match_decides() -> None:
    store = filled((9, 9, 9), [1, 2, 3, 4, 5], [8, 2, 3, 4, 6], [7, 2, 3, 4, 6])
    store.extend(0, [1, 2, 3, 4])
    assert store.draft(0, 4) == Draft((5,), 7, (0.5,)), "it matches the prompt's end as well"


def test_places_of_the_same_match_vote_and_the_winners_go_on() -> None:
    store = filled((9,), [0, 1, 2, 3, 4, 5, 6], [5, 1, 2, 3, 4, 5, 7], [6, 1, 2, 3, 8, 9, 9])
    store.extend(0, [7, 1, 2, 3])
    assert store.draft(0, 9) == Draft((4, 5, 7), 3, (2 / 4, 2 / 3, 1 / 3)), "of 6 and 7, the newer"
    assert store.draft(0, 1).tokens == (4,)
    assert store.draft(0, 0) == Draft()


def test_running_siblings_are_drafted_from_as_they_grow() -> None:
    store = filled((9,))
    store.begin(1, (9,))
    store.extend(1, [1, 2, 3, 4])
    store.extend(0, [1, 2, 3])
    assert store.draft(0, 5).tokens == (4,)
    store.extend(1, [5])
    assert store.draft(0, 5) == Draft((4, 5), 4, (0.5, 0.5))


def test_finished_text_serves_later_epochs() -> None:
    store = filled((9, 8, 7), [1, 2, 3, 4])
    assert store.draft(0, 3) == Draft((1, 2, 3), 3, (0.5, 0.5, 0.5)), "the prompt's end is the match"
    store.end(0)
    for epoch in (1, 2):
        store.begin(epoch, (9, 8, 7))
        assert store.draft(epoch, 3).tokens == (1, 2, 3)
        store.end(epoch)


def test_a_request_is_drafted_from_its_own_text_and_prompt() -> None:
    store = filled((1, 2, 3, 4, 5))
    store.extend(0, [1, 2, 3])
    assert store.draft(0, 9) == Draft((4, 5), 3, (0.5, 0.5)), "the prompt's text ends there"
    store.extend(0, [6, 7, 1, 2, 3])
    assert store.draft(0, 2).tokens == (6, 7), "newer than the prompt"


def test_the_prompt_votes_once_however_many_siblings_share_it() -> None:
    prompt = (0, 1, 2, 3, 4, 0)
    store = filled(prompt, [6, 1, 2, 3, 5], [7, 1, 2, 3, 5])
    store.extend(0, [8, 1, 2, 3])
    assert store.draft(0, 1) == Draft((5,), 3, (2 / 4,))


def test_nothing_leaks_between_prompts() -> None:
    store = filled((9, 9, 9), [1, 2, 3, 4, 5])
    store.begin(1, (9, 9, 8))
    store.extend(1, [1, 2, 3])
    assert store.draft(1, 4) == Draft()
    store.extend(0, [1, 2, 3])
    assert store.draft(0, 4).tokens == (4, 5)


def test_new_or_short_text_gives_an_empty_draft() -> None:
    store = filled((9,), [1, 2, 3, 4])
    assert store.draft(0, 4) == Draft(), "one known token"
    store.extend(0, [2, 3])
    assert store.draft(0, 4) == Draft(), "two tokens match"
    empty = filled(())
    assert empty.draft(0, 4) == Draft()


def test_a_request_runs_once() -> None:
    store = filled((1,))
    with pytest.raises(ValueError, match="request 0 is running"):
        store.begin(0, (1,))


def test_it_is_empty_until_the_first_request_and_after_eviction() -> None:
    store = Store(10)
    assert not store._active
    assert not store._idle
    store.begin(0, (1, 2, 3))
    assert store._active
    store.end(0)
    assert not store._active
    assert not store._idle
    assert store._bytes == 0


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 10**6), st.integers(5_000, 40_000))
def test_memory_stays_bounded_and_running_requests_stay(seed: int, memory: int) -> None:
    """The bound holds unless running requests alone exceed it: then little else is left."""
    store, rng = Store(memory), random.Random(seed)
    running: dict[int, tuple[tuple[int, ...], list[int]]] = {}
    for request in range(25):
        prompt = (rng.randrange(6),) * 5
        store.begin(request, prompt)
        running[request] = prompt, []
        for other, (_, written) in running.items():
            tokens = [rng.randrange(3) for _ in range(rng.randrange(25))]
            store.extend(other, tokens)
            written += tokens
        while len(running) > rng.randrange(1, 8):
            ended = rng.choice(sorted(running))
            store.end(ended)
            del running[ended]
        if store._bytes > memory:
            alone = Store(AMPLE)
            for other, (key, written) in running.items():
                alone.begin(other, key)
                alone.extend(other, written)
                alone.draft(other, 0)
            assert store._bytes <= 3 * alone._bytes
        for other, (key, written) in running.items():
            naive = Naive(key)
            naive.begin(other)
            naive.extend(other, written)
            assert store.draft(other, 3).match >= naive.draft(other, 3).match, "its own text at least"
    for other in running:
        store.end(other)
    assert store._bytes <= memory


@pytest.mark.parametrize("letters", [2, 30, 50_000])
def test_the_accounted_bytes_are_honest(letters: int) -> None:
    rng = random.Random(letters)
    store = Store(AMPLE)
    for request in range(12):
        store.begin(request, tuple(range(request // 4, 300)))
        for _ in range(100):
            store.extend(request, [rng.randrange(letters) for _ in range(6)])
        store.end(request)
    assert 0.95 < store._bytes / deep_size(store, set()) < 1.4


def test_the_memory_of_dropped_text_is_freed() -> None:
    """Ten thousand tokens in a hundred requests pass through a store that holds some hundred of them.

    Dictionaries keep their tables when they lose keys: that is not accounted for.
    """
    store, rng = Store(50_000), random.Random(0)
    store.begin(-1, (9,))
    for request in range(100):
        store.begin(request, (9,))
        store.extend(request, [rng.randrange(1000) for _ in range(100)])
        store.end(request)
    assert store._bytes <= 50_000
    assert 0.8 < store._bytes / deep_size(store, set()) < 1.4


def test_text_of_the_first_to_finish_is_dropped_first() -> None:
    rng = random.Random(0)
    texts = [[rng.randrange(1000) for _ in range(400)] for _ in range(3)]
    ample = filled((9,), texts[1])
    ample.extend(0, texts[2])
    ample.draft(0, 8)
    store = Store(ample._bytes + 3_000)
    for request, text in enumerate(texts):
        store.begin(request, (9,))
        store.extend(request, text)
        store.draft(request, 8)  # what it reads is in memory for a while
        if request < 2:
            store.end(request)
    for probe, expected in ((0, False), (1, True)):
        store.begin(7 + probe, (9,))
        store.extend(7 + probe, texts[probe][:40])
        assert (store.draft(7 + probe, 8) == Draft(tuple(texts[probe][40:48]), 24, (0.5,) * 8)) is expected


def test_the_least_recently_used_prompt_goes_first() -> None:
    def use(store: Store, prompt: int, tokens: int = 10_000) -> None:
        store.begin(0, (prompt,) * 3)
        store.extend(0, range(tokens))
        store.end(0)

    single = Store(AMPLE)
    use(single, 1)

    def remembers(prompt: int) -> bool:
        store = Store(int(3.95 * single._bytes))
        use(store, 1)
        use(store, 2)
        use(store, 1, tokens=0)
        use(store, 3)
        use(store, 4)  # pushes out prompt 2, as 1 was used again
        store.begin(0, (prompt,) * 3)
        return store.draft(0, 1) != Draft()  # which takes memory, too

    assert [prompt for prompt in (1, 2, 3, 4) if remembers(prompt)] == [1, 3, 4]


def test_a_prompt_with_many_texts_forgets_the_first_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suffix_store, "MOST_TOKENS", 250)
    store = Store(AMPLE)
    for request in range(3):
        store.begin(request, (9,))
        store.extend(request, range(1000 * request, 1000 * request + 100))
    for request in (1, 0, 2):
        store.end(request)
    for request, expected in ((0, True), (1, False), (2, True)):
        store.begin(request, (9,))
        store.extend(request, range(1000 * request + 10, 1000 * request + 20))
        assert (store.draft(request, 2).tokens == (1000 * request + 20, 1000 * request + 21)) is expected
        store.end(request)


def test_a_request_that_is_interrupted_and_goes_on_is_there_once() -> None:
    """Or its own beginnings would vote as siblings, and take their room."""
    store = Store(AMPLE)
    store.begin(7, (1, 2, 3))
    store.extend(7, (4, 5, 6, 9, 4, 5, 6))
    once = store.draft(7, 1)
    empty = store._bytes
    for _ in range(3):
        written = store.written[7]
        store.end(7)
        store.begin(7, (1, 2, 3), written)
        assert store.draft(7, 1) == once
    assert store._bytes == empty
    assert store.state() == []


def test_siblings_draft_from_a_response_that_was_interrupted_for_good() -> None:
    """As a step's longest ones are where more are sampled than are needed."""
    store = Store(AMPLE)
    store.begin(7, (1, 2, 3))
    store.extend(7, (4, 5, 6, 9))
    store.end(7)
    store.begin(8, (1, 2, 3))
    store.extend(8, (4, 5, 6))
    assert store.draft(8, 1).tokens == (9,)
    store.begin(9, (1, 2, 3), [4, 5, 7])  # which begins otherwise
    assert store.draft(8, 1).tokens == (9,)
