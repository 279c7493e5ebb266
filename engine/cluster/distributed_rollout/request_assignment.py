"""Which worker generates which requests. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence

from engine.policy.training.balance import balance
from engine.rollout.interface import Request


def assign_requests(
    requests: Sequence[Request], workers: int, expected: Sequence[float] | None = None, ahead: Collection[int] = ()
) -> list[list[Request]]:
    """The requests of each worker; a group is all one worker's. ``expected``: tokens that each request is predicted to need; then workers
    have nearly as much to do as each other, and begin with what is longest. Without, groups go round. ``ahead``: groups that nobody waits
    for, the last ones; the others are shared out as if there were none of them."""
    groups = sorted({request.group for request in requests})
    if expected is None:
        owner = {group: index % workers for index, group in enumerate(groups)}
    else:
        needs: Counter[int] = Counter()
        for request, tokens in zip(requests, expected, strict=True):
            needs[request.group] += round(tokens)
        owner = {}
        for members in ([group for group in groups if (group in ahead) is last] for last in (False, True)):
            loads = [sum(needs[group] for group, place in owner.items() if place == worker) for worker in range(workers)]
            parts = balance([needs[group] for group in members], workers, loads)
            owner |= {members[index]: worker for worker, part in enumerate(parts) for index in part}
        order = sorted(range(len(requests)), key=lambda index: -expected[index])
        requests = [requests[index] for index in order]
    shares: list[list[Request]] = [[] for _ in range(workers)]
    for request in requests:
        shares[owner[request.group]].append(request)
    return shares
