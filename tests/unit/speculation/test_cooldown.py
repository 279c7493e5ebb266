"""Speculation that brings nothing rests, and looks again."""

from engine.speculation.cooldown import LEAST_DRAFTED_SHARE, Cooldown, watched


def steps_watched(shares: list[float], steps: int = 3, trained: frozenset[int] = frozenset()) -> list[int]:
    """Of a run in whose step i drafts would bring shares[i] of the tokens."""
    rest, found = Cooldown(), []
    for step, share in enumerate(shares):
        if not rest.at(step):
            found.append(step)
            rest = watched(rest, step, share, step in trained, steps)
    return found


def test_what_brings_nothing_rests_after_two_rollouts_and_looks_again_at_once_a_rest() -> None:
    assert steps_watched([0.0] * 12) == [0, 1, 5, 9]


def test_what_helps_never_rests() -> None:
    assert steps_watched([0.5, 0.0, 0.5, 0.0, LEAST_DRAFTED_SHARE, 0.0, 0.5]) == list(range(7))


def test_longer_responses_are_noticed_at_the_next_look() -> None:
    assert steps_watched([0.0] * 5 + [0.4] * 5) == [0, 1, 5, 6, 7, 8, 9]


def test_a_drafter_that_learns_is_watched() -> None:
    assert steps_watched([0.0] * 9, trained=frozenset({1, 2, 3})) == [0, 1, 2, 3, 4, 5]


def test_a_rest_of_no_steps_is_none() -> None:
    assert steps_watched([0.0] * 5, steps=0) == list(range(5))


def test_a_look_is_not_judged_by_what_was_generated_while_speculation_rested() -> None:
    """Of an asynchronous run most of that may have come beside the update before the look."""
    rest = Cooldown(fruitless=2, until=5)
    assert [step for step in range(8) if rest.tells(step, overlapping=False)] == [5, 6, 7]
    assert [step for step in range(8) if rest.tells(step, overlapping=True)] == [6, 7]


def test_a_rollout_without_tokens_says_nothing() -> None:
    """As in an asynchronous run whose responses were all finished before their step."""
    cooldown = watched(Cooldown(), 0, 0.0, trained=False, steps=5)
    assert watched(cooldown, 1, None, trained=False, steps=5) == cooldown
    assert watched(cooldown, 1, None, trained=True, steps=5) == Cooldown()
