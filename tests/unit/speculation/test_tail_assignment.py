"""Plans for the tail against all plans of the allowed form, and against an example worked out by hand."""

from collections.abc import Sequence
from itertools import pairwise, permutations, product
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tail_assignment import can_mix, plan_tail

DEEP, SHALLOW, TREE = Strategy("eagle", 6, 1, 6), Strategy("eagle", 2, 1, 2), Strategy("eagle", 6, 2, 8)
NGRAM, NGRAMS = Strategy("ngram", 4, 1, 4), Strategy("ngram", 8, 1, 8)
ARMS = (DEEP, SHALLOW, TREE, NGRAM, NGRAMS)


def verified(plan: Sequence[Strategy]) -> float:
    """Ten units for a step and one for each verified token."""
    return 10.0 + sum(strategy.verify for strategy in plan)


def test_the_longest_gets_a_deep_draft_and_the_short_ones_none() -> None:
    """Steps times units: 160 * 10 = 1600 with OFF; 40 * 28 = 1120 with DEEP for all; max(160 / 4, 30) * 16 = 640 for the first only."""
    accepted = {DEEP: 3.0, SHALLOW: 1.0}
    assert plan_tail([30, 160, 20], [DEEP, SHALLOW], accepted.__getitem__, verified) == (OFF, DEEP, OFF)


def test_equal_requests_share_a_strategy() -> None:
    accepted = {DEEP: 3.0, SHALLOW: 1.0}
    assert plan_tail([80, 80], [DEEP, SHALLOW], accepted.__getitem__, verified) == (DEEP, DEEP)  # 20 * 22 < 40 * 14 < 80 * 10
    assert plan_tail([80, 80], [SHALLOW], {SHALLOW: 0.3}.__getitem__, verified) == (OFF, OFF)  # 61.5 * 14 > 80 * 10


def test_on_a_tie_the_others_finish_sooner() -> None:
    """A step always takes one unit, and the longest is the last with either plan: the short one may draft as well."""
    assert plan_tail([100, 10], [NGRAM], {NGRAM: 1.0}.__getitem__, lambda _: 1.0) == (NGRAM, NGRAM)


def test_one_request_gets_the_fastest_strategy_and_none_an_empty_plan() -> None:
    accepted = {DEEP: 3.0, SHALLOW: 1.5}
    assert plan_tail([50], [SHALLOW, DEEP], accepted.__getitem__, verified) == (DEEP,)  # 16 / 4 = 4 < 12 / 2.5 = 4.8
    assert plan_tail([], [SHALLOW, DEEP], accepted.__getitem__, verified) == ()
    assert plan_tail([50, 5], [], accepted.__getitem__, verified) == (OFF, OFF)


def test_the_learned_drafter_drafts_in_one_shape_per_step() -> None:
    mixed = {(one, other) for one, other in permutations((OFF, *ARMS), 2) if not can_mix(one, other)}
    assert mixed == {(DEEP, TREE), (TREE, DEEP), (SHALLOW, TREE), (TREE, SHALLOW)}


def allowed(plan: Sequence[Strategy], remaining: Sequence[float]) -> bool:
    ordered = [plan[i] for i in sorted(range(len(plan)), key=lambda i: (-remaining[i], i))]
    changes = [(before, after) for before, after in pairwise(ordered) if before != after]
    learned = {strategy for strategy in plan if strategy.drafter == "eagle"}
    return len(changes) <= 1 and (len(learned) <= 1 or all(strategy.top_k == 1 for strategy in learned))


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.lists(st.sampled_from([0, 1, 3, 7]), min_size=len(ARMS), max_size=len(ARMS)),
    st.lists(st.integers(0, 9), min_size=len(ARMS) + 1, max_size=len(ARMS) + 1),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.integers(1, 40),
)
def test_no_allowed_plan_finishes_sooner(tokens: list[int], accepted: list[int], costs: list[int], weights: list[int], base: int) -> None:
    """Verifying costs differently per request here, so it matters that ``seconds`` gets the plan in the requests' own order.
    The paces are powers of two, so the arithmetic is exact."""
    expected = dict(zip(ARMS, accepted, strict=True))
    cost = dict(zip((OFF, *ARMS), costs, strict=True))

    def seconds(plan: Sequence[Strategy]) -> float:
        return base + sum(weight * cost[strategy] for weight, strategy in zip(weights, plan, strict=False))

    def finish(plan: Sequence[Strategy]) -> tuple[float, float]:
        times = [seconds(plan) * left / (1 + expected.get(strategy, 0)) for left, strategy in zip(tokens, plan, strict=True)]
        return max(times), sum(times)

    candidates = [plan for plan in product((OFF, *ARMS), repeat=len(tokens)) if allowed(plan, tokens)]
    chosen = plan_tail(tokens, ARMS, expected.__getitem__, seconds)
    assert chosen in candidates
    assert finish(chosen) == min(finish(plan) for plan in candidates)


def test_planning_costs_less_than_a_decode_step() -> None:
    """12 model-free strategies that all mix are the worst case: 481 plans; half a millisecond on a slow core."""
    arms = [Strategy("ngram", depth, 1, depth) for depth in range(1, 13)]
    expected, asked = {arm: arm.depth / 3 for arm in arms}, []

    def seconds(plan: Sequence[Strategy]) -> float:
        asked.append(plan)
        return 1.0

    plan_tail([900, 400, 300, 20], arms, expected.__getitem__, seconds)
    assert len(asked) == 13 + 13 * 12 * 3
    times = []
    for _ in range(20):
        start = process_time()
        plan_tail([900, 400, 300, 20], arms, expected.__getitem__, seconds)
        times.append(process_time() - start)
    assert min(times) < 0.005, "the least: other work on the machine only adds"
