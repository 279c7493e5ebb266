"""What was done about a rollout's tail, and when, for the timeline. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from engine.rollout.decoding_timeline import Moment
from engine.rollout.interface import Completion, Request, SchedulingMark


def marks(
    shares: Sequence[Sequence[Request]],
    completions: Sequence[Completion],
    expected: Mapping[int, float],
    moments: Mapping[int, Sequence[Moment]],
) -> dict[int, list[SchedulingMark]]:
    """By worker, of its share of the rollout. ``expected``: the tokens that each request (by id) was predicted to need, if the shares are
    in that order; ``moments``: how each worker decoded."""
    stopped = {completion.request.id for completion in completions if completion.finish == "abort"}
    return {worker: list(_marks(shares[worker], stopped, expected, found)) for worker, found in moments.items() if found}


def _marks(
    share: Sequence[Request], stopped: Collection[int], expected: Mapping[int, float], moments: Sequence[Moment]
) -> Iterator[SchedulingMark]:
    ids = [request.id for request in share]
    begin, end = _began(moments), moments[-1].time
    if tokens := round(sum(expected.get(request, 0.0) for request in ids)):
        yield SchedulingMark(begin, "longest_first", tokens)
    if carried := sum(bool(request.begun.tokens) for request in share):
        yield SchedulingMark(begin, "carried", carried)
    if count := sum(request in stopped for request in ids):
        yield SchedulingMark(end, "stopped", count)


def _began(moments: Sequence[Moment]) -> float:
    """When the last stretch of decoding began: what an asynchronous worker generated beside the last update comes before it."""
    before = [place for place, moment in enumerate(moments[:-1]) if not moment.running]
    return moments[before[-1] + 1 if before else 0].time
