"""What a step hands on to the next."""

import json
from dataclasses import replace

from engine.experience.partial_rollouts import Backlog, Group
from engine.rollout.interface import Completion, Finish, PartialResponse, Request

LIMIT = 8


def completion(request: Request, tokens: int, finish: Finish, version: int) -> Completion:
    begun = request.begun
    return Completion(request, begun.tokens + (7,) * tokens, begun.logprobs + (-0.1,) * tokens, finish, version, 3)


def test_new_prompts_follow_those_that_were_begun_and_none_is_given_twice() -> None:
    backlog = Backlog(2, LIMIT)
    assert [group.position for group in backlog.take(3)] == [0, 1, 2]
    taken = backlog.take(2)
    backlog.groups = [taken[1]]
    assert [group.position for group in backlog.take(3)] == [4, 5, 6]
    assert [group.position for group in backlog.take(1)] == [7]


def test_a_response_is_the_same_request_in_every_step_and_keeps_what_it_has() -> None:
    backlog = Backlog(2, LIMIT)
    group = backlog.take(6)[5]
    first = group.requests(0, (1, 2))
    assert [request.id for request in first] == [10, 11]
    after = group.after([completion(first[0], 3, "abort", 4), completion(first[1], 2, "stop", 4)])
    assert not after.complete
    again = after.requests(1, (1, 2))
    assert again[0] == replace(first[0], group=1, begun=PartialResponse((7, 7, 7), (-0.1,) * 3, ((4, 3),)))
    (known,) = after.completions(1, (1, 2))
    assert (known.request.id, known.tokens, known.finish, known.fresh, known.spans) == (11, (7, 7), "stop", 0, ((4, 2),))
    assert (known.target_version, known.drafter_version) == (4, 3)
    done = after.after([completion(again[0], 1, "length", 5), known])
    assert done.complete
    assert [member.begun.spans for member in done.members] == [((4, 3), (5, 1)), ((4, 2),)]


def test_it_survives_a_checkpoint() -> None:
    backlog, other = Backlog(2, LIMIT), Backlog(2, LIMIT)
    group = backlog.take(4)[3]
    requests = group.requests(0, (1, 2))
    backlog.groups = [group.after([completion(requests[0], 3, "abort", 4), completion(requests[1], 2, "stop", 4)])]
    other.load_state(json.loads(json.dumps(backlog.state())))
    assert (other.position, other.groups) == (backlog.position, backlog.groups)


def test_what_was_begun_for_other_steps_is_not_taken_for_these() -> None:
    """As where a run goes on by another configuration: later, or with less ahead."""
    backlog = Backlog(2, LIMIT)

    def again(start: int, stop: int) -> list[tuple[int, int]]:
        return [(group.position, len(group.members)) for group in backlog.take_until(start, stop)]

    groups = backlog.take_until(4, 8)
    backlog.groups = groups[2:]
    assert backlog.take_until(6, 10)[:2] == groups[2:]
    backlog.groups = groups
    assert again(20, 22) == [(20, 2), (21, 2)]
    backlog.groups = groups
    assert again(4, 6) == [(4, 2), (5, 2)]
    assert again(6, 8) == [(6, 2), (7, 2)]


def test_what_a_resumed_run_would_not_have_begun_so_begins_anew() -> None:
    """By groups of another size, or with a response that has reached a lower limit."""
    backlog = Backlog(2, LIMIT)
    groups = backlog.take(3)
    short, long, done = (group.requests(0, (1, 2)) for group in groups)
    made = [
        [completion(short[0], 2, "abort", 0), completion(short[1], 4, "stop", 0)],
        [completion(long[0], 1, "stop", 0), completion(long[1], 4, "abort", 0)],
        [completion(done[0], 5, "stop", 0), completion(done[1], 1, "abort", 0)],
    ]
    backlog.groups = [group.after(each) for group, each in zip(groups, made, strict=True)]
    state = json.loads(json.dumps(backlog.state()))

    def resumed(size: int, limit: int) -> list[Group]:
        other = Backlog(size, limit)
        other.load_state(state)
        assert [group.position for group in other.take(4)] == [0, 1, 2, 3]
        other.load_state(state)
        return other.groups

    assert resumed(2, 5) == backlog.groups
    assert resumed(2, 4) == [backlog.groups[0], *groups[1:]]
    assert resumed(2, 1) == groups
    assert [len(group.members) for group in resumed(3, LIMIT)] == [3, 3, 3]
