"""With few requests left the aim is the last finish, not throughput: deeper drafts for those predicted to run longest."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations

from engine.speculation.strategy import OFF, Strategy

MODEL_FREE = ("none", "ngram")
Assignment = tuple[Strategy, ...]


def plan_tail(
    remaining: Sequence[float],
    strategies: Sequence[Strategy],
    expected: Callable[[Strategy], float],
    seconds: Callable[[Sequence[Strategy]], float],
) -> Assignment:
    """A strategy for each request, such that the last one is predicted to finish first; on a tie, the least sum of all finish times.

    ``remaining[i]`` > 0: tokens that request i still needs. ``expected(s)``: drafted tokens that a step with s accepts per request;
    not asked for OFF. ``seconds(plan)`` > 0: the time of a step in which request i uses ``plan[i]``, taken as constant to the end.
    OFF is always among the strategies. Considered is the same strategy for all, or one for the k longest and one for the rest.
    """
    if not remaining:
        return ()
    paces = {OFF: 1.0} | {arm: 1.0 + expected(arm) for arm in strategies if arm != OFF}
    best, chosen = (float("inf"), float("inf")), (OFF,) * len(remaining)
    for plan, longest, total in _plans(remaining, paces):
        step = seconds(plan)
        if (finish := (step * longest, step * total)) < best:
            best, chosen = finish, plan
    return chosen


def can_mix(one: Strategy, other: Strategy) -> bool:
    """Whether a step may use both: the learned drafter drafts in one shape per step, but a chain can be cut short."""
    if one.drafter in MODEL_FREE or other.drafter in MODEL_FREE:
        return True
    return one.drafter == other.drafter and one.top_k == other.top_k == 1


def _plans(remaining: Sequence[float], paces: Mapping[Strategy, float]) -> Iterator[tuple[Assignment, float, float]]:
    """Plans, each with the steps until the last request finishes, and the sum of all requests' steps."""
    order = sorted(range(len(remaining)), key=lambda request: -remaining[request])
    tokens = [remaining[request] for request in order]
    for arm, pace in paces.items():
        yield (arm,) * len(tokens), tokens[0] / pace, sum(tokens) / pace
    splits = [
        ([request in order[:k] for request in range(len(tokens))], tokens[k], sum(tokens[:k]), sum(tokens[k:]))
        for k in range(1, len(tokens))
    ]
    for (one, fast), (other, slow) in permutations(paces.items(), 2):
        if can_mix(one, other):
            for first, longest, ahead, behind in splits:
                plan = tuple([one if among else other for among in first])
                yield plan, max(tokens[0] / fast, longest / slow), ahead / fast + behind / slow
