"""What decode steps would have taken plainly or by n-grams, of strategies whose costs and acceptance are known."""

from engine.speculation.counterfactual import Counterfactual, DecodeSeconds
from engine.speculation.strategy import OFF, Context, Strategy

EAGLE, NGRAM = Strategy("eagle", 4, 1, 4), Strategy("ngram", 4, 1, 4)


class Known:
    """A plain step takes a second for each request; n-grams bring one token more a step that takes ``slower`` times as long."""

    def __init__(self, slower: float) -> None:
        self._slower = slower

    def expected(self, strategy: Strategy) -> float:
        return {OFF: 0.0, NGRAM: 1.0}[strategy]

    def seconds(self, strategy: Strategy, context: Context) -> float:
        return context.batch * (1.0 if strategy == OFF else self._slower)


def test_each_step_counts_as_long_as_its_tokens_would_have_taken() -> None:
    steps = Counterfactual()
    steps.record("none", Context(2), [1, 1], 2.5)
    steps.record("ngram", Context(2), [3, 1], 3.0)
    steps.record("eagle", Context(2), [4, 2], 4.0)
    steps.record("eagle", Context(1, 500.0), [5], 2.0)
    # plain: 2.5 of its own, 2 * 2 s, 3 * 2 s, 5 * 1 s; n-grams: 2.5 and 3.0 of its own, and of the others three quarters of the plain ones
    assert steps.take(Known(1.5), [EAGLE, NGRAM]) == DecodeSeconds(11.5, 6.0, 17.5, 13.75)
    assert steps.take(Known(1.5), [EAGLE, NGRAM]) is None


def test_without_the_learned_drafter_nobody_drafts_where_n_grams_do_not_pay() -> None:
    steps = Counterfactual()
    steps.record("eagle", Context(1), [4], 2.0)
    assert steps.take(Known(2.5), [EAGLE, NGRAM]) == DecodeSeconds(2.0, 2.0, 4.0, 4.0)
    steps.record("eagle", Context(1), [4], 2.0)
    assert steps.take(Known(1.0), [EAGLE]) == DecodeSeconds(2.0, 2.0, 4.0, 4.0)
