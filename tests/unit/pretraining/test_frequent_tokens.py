"""The tokens that a drafter drafts from."""

from collections import Counter

from engine.pretraining.frequent_tokens import frequent_tokens


def test_the_most_frequent_ones_rising() -> None:
    chosen = frequent_tokens(Counter({90: 5, 7: 9, 50: 1}), whole=100, size=2)
    assert chosen is not None
    assert chosen.tolist() == [7, 90]


def test_where_fewer_occur_the_lowest_ids_follow() -> None:
    chosen = frequent_tokens(Counter({90: 5}), whole=100, size=4)
    assert chosen is not None
    assert chosen.tolist() == [0, 1, 2, 90]


def test_a_vocabulary_that_is_not_much_larger_stays_whole() -> None:
    assert frequent_tokens(Counter({1: 1}), whole=100, size=51) is None
    assert frequent_tokens(Counter({1: 1}), whole=100, size=0) is None
