"""What the suffix store leaves in a checkpoint."""

import json

import pytest

from engine.speculation.ngram import suffix_store
from engine.speculation.ngram.suffix_store import SuffixStore

AMPLE = 1 << 30


def test_a_checkpoint_brings_back_what_was_written() -> None:
    before, after = SuffixStore(AMPLE), SuffixStore(AMPLE)
    prompts = [(50 + index, 60, 61, 62) for index in range(3)]
    texts = [[index, 7, 8, 9, 10, 11 + index, 12] for index in range(5)]
    for request, (prompt, text) in enumerate((prompt, text) for prompt in prompts for text in texts):
        before.begin(request, prompt, text)
        before.end(request)
    after.load_state(json.loads(json.dumps(before.state())))
    for prompt in prompts:
        written = [3, 7, 8, 9]
        for store in (before, after):
            store.begin(99, prompt, written)
        assert after.draft(99, 4) == before.draft(99, 4)
        assert after.draft(99, 4).tokens
        for store in (before, after):
            store.end(99)
    assert after.state() == before.state()


def test_a_checkpoint_has_the_newest_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suffix_store, "MOST_SAVED", 30)
    store, again = SuffixStore(AMPLE), SuffixStore(AMPLE)
    for request in range(5):
        store.begin(request, (request, 1, 2), [request] * 9)
        store.end(request)
    store.begin(7, (8, 8, 8), [5, 5, 5])  # has not finished: what it writes is not over
    again.load_state(store.state())
    found = []
    for prompt in range(5):
        again.begin(99, (prompt, 1, 2), ())
        found += [prompt] * bool(again.draft(99, 2).tokens)
        again.end(99)
    assert found == [3, 4]


def test_equal_responses_and_beginnings_of_others_are_all_loaded() -> None:
    store, loaded = SuffixStore(AMPLE), SuffixStore(AMPLE)
    for text in ([4, 5, 6], [4, 5, 6], [4, 5, 6, 7]):
        written: list[int] = []
        store.begin(0, (1, 2, 3), written)
        written.extend(text)
        store.end(0)
    loaded.load_state(store.state())
    assert loaded.state() == store.state()
    ((_, *texts),) = loaded.state()
    assert len(texts) == 3
