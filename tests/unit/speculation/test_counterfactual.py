"""What decode steps would have taken plainly or by n-grams, of strategies whose costs and acceptance are known."""

from engine.speculation.counterfactual import Counterfactual, DecodeSeconds
from engine.speculation.strategy import OFF, Context, Strategy

EAGLE, NGRAM = Strategy("eagle", 4, 1, 4), Strategy("ngram", 4, 1, 4)


class Known:
    """A plain step takes a second for each request, or one whatever the batch (``flat``); n-grams bring one token more a step that takes
    ``slower`` times as long."""

    def __init__(self, slower: float, flat: bool = False) -> None:
        self._slower, self._flat = slower, flat

    def expected(self, strategy: Strategy) -> float:
        return {OFF: 0.0, NGRAM: 1.0}[strategy]

    def seconds(self, strategy: Strategy, context: Context) -> float:
        return (1 if self._flat else context.batch) * (1.0 if strategy == OFF else self._slower)


class Rollout:
    """Of responses that are known by their numbers."""

    def __init__(self, steps: Counterfactual, *numbers: int) -> None:
        self._steps, self._written = steps, {number: list[int]() for number in numbers}
        for number, written in self._written.items():
            steps.admit(number, [0] * 8, written)

    def step(self, drafter: str, kept: dict[int, int], seconds: float) -> None:
        for number, tokens in kept.items():
            self._written[number].extend([0] * tokens)
        self._steps.record(drafter, Context(len(kept)), list(kept.values()), seconds)

    def end(self, *numbers: int, finished: bool = True) -> None:
        for number in numbers:
            self._steps.leave(number, finished)


def test_each_step_counts_as_long_as_its_tokens_would_have_taken() -> None:
    steps = Counterfactual()
    rollout = Rollout(steps, 1, 2)
    rollout.step("none", {1: 1, 2: 1}, 2.5)
    rollout.step("ngram", {1: 2, 2: 2}, 3.0)
    rollout.step("eagle", {1: 3, 2: 3}, 4.0)
    rollout.end(2)
    rollout.step("eagle", {1: 5}, 2.0)
    rollout.end(1)
    # plain: 2.5 of its own, 2 * 2 s, 3 * 2 s, 5 * 1 s; n-grams: 2.5 and 3.0 of its own, and of the others three quarters of the plain ones
    assert steps.take(Known(1.5), [EAGLE, NGRAM]) == DecodeSeconds(11.5, 6.0, 17.5, 13.75)
    assert steps.take(Known(1.5), [EAGLE, NGRAM]) is None


def test_without_the_learned_drafter_nobody_drafts_where_n_grams_do_not_pay() -> None:
    for slower, strategies in ((2.5, [EAGLE, NGRAM]), (1.0, [EAGLE])):
        steps = Counterfactual()
        Rollout(steps, 1).step("eagle", {1: 4}, 2.0)
        assert steps.take(Known(slower), strategies) == DecodeSeconds(2.0, 2.0, 4.0, 4.0)


def test_plainly_no_response_lags_behind_the_others() -> None:
    """The one that drafts could not foresee went on alone for three steps."""
    steps = Counterfactual()
    rollout = Rollout(steps, 1, 2)
    rollout.step("eagle", {1: 4, 2: 1}, 1.0)
    rollout.end(1)
    for _ in range(3):
        rollout.step("eagle", {2: 1}, 1.0)
    rollout.end(2)
    # n-grams, which would bring two tokens in 1.5 s, lag behind as little
    assert steps.take(Known(1.5, flat=True), [EAGLE, NGRAM]) == DecodeSeconds(4.0, 4.0, 4.0, 3.0)


def test_plain_steps_alone_took_what_they_took() -> None:
    steps = Counterfactual()
    rollout = Rollout(steps, 1, 2)
    rollout.step("none", {1: 1, 2: 1}, 3.0)
    rollout.end(1)
    rollout.step("none", {2: 1}, 0.7)
    assert steps.take(Known(1.5), [EAGLE]) == DecodeSeconds(3.7, 0.0, 3.7, 3.7)


def test_a_response_that_had_to_wait_would_have_waited_plainly() -> None:
    steps = Counterfactual()
    rollout = Rollout(steps, 1)
    rollout.step("eagle", {1: 4}, 1.0)
    rollout.end(1)
    following = Rollout(steps, 2)
    following.step("eagle", {2: 6}, 1.0)
    following.end(2)
    assert steps.take(Known(1.0, flat=True), [EAGLE]) == DecodeSeconds(2.0, 2.0, 10.0, 10.0)


def test_a_rollout_does_not_run_beside_the_one_before() -> None:
    steps = Counterfactual()
    for _ in range(2):
        rollout = Rollout(steps, 1, 2)
        rollout.step("eagle", {1: 4, 2: 4}, 1.0)
        rollout.end(1, 2)
        steps.end_rollout()
    assert steps.take(Known(1.0, flat=True), [EAGLE]) == DecodeSeconds(2.0, 2.0, 8.0, 8.0)


def test_of_a_rollout_that_is_cut_off_each_step_counts_for_itself() -> None:
    """The one that drafts foresaw was ahead when it was aborted; a plain rollout would have been, too, with fewer tokens of it."""
    steps = Counterfactual()
    rollout = Rollout(steps, 1, 2)
    rollout.step("eagle", {1: 7, 2: 1}, 1.0)
    rollout.end(2)
    rollout.end(1, finished=False)
    assert steps.take(Known(1.0, flat=True), [EAGLE]) == DecodeSeconds(1.0, 1.0, 4.0, 4.0)


def test_of_a_rollout_that_goes_on_each_step_counts_for_itself() -> None:
    steps = Counterfactual()
    rollout = Rollout(steps, 1, 2)
    rollout.step("eagle", {1: 7, 2: 1}, 1.0)
    assert steps.take(Known(1.0, flat=True), [EAGLE]) == DecodeSeconds(1.0, 1.0, 4.0, 4.0)
    rollout.step("eagle", {1: 1, 2: 3}, 1.0)
    rollout.end(1, 2)
    assert steps.take(Known(1.0, flat=True), [EAGLE]) == DecodeSeconds(1.0, 1.0, 2.0, 2.0)
    following = Rollout(steps, 3, 4)
    following.step("eagle", {3: 4, 4: 1}, 1.0)
    following.end(3)
    following.step("eagle", {4: 3}, 1.0)
    following.end(4)
    assert steps.take(Known(1.0, flat=True), [EAGLE]) == DecodeSeconds(2.0, 2.0, 4.0, 4.0), "known from its beginning to its end"


def test_where_a_full_cache_lets_a_response_wait_again_each_step_counts_for_itself() -> None:
    """As many at once as at the start would not have had room plainly either."""
    steps = Counterfactual()
    rollout = Rollout(steps, 1, 2)
    rollout.step("eagle", {1: 2, 2: 2}, 1.0)
    for number in (1, 2):
        rollout.step("eagle", {number: 4}, 1.0)
        rollout.end(number)
    assert steps.take(Known(1.0, flat=True), [EAGLE]) == DecodeSeconds(3.0, 3.0, 10.0, 10.0)
