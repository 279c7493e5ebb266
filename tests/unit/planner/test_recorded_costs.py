"""What a phase takes by tokens and pairs of tokens, from the steps of a recorded run."""

import numpy as np
import pytest

from engine.planner.answers.recorded_costs import by_length
from engine.planner.answers.recorded_run import RecordedStep

PROMPT = 20.0
RNG = np.random.default_rng(0)
LENGTHS = [tuple(np.clip(RNG.lognormal(4, 1, 16), 1, 1024).astype(int).tolist()) for _ in range(12)]


def steps(token: float, pair: float) -> list[RecordedStep]:
    found = []
    for index, lengths in enumerate(LENGTHS):
        whole = np.array(lengths) + PROMPT
        found.append(RecordedStep(index, 1.0, lengths, {"update": token * whole.sum() + pair * (whole**2).sum()}, {}))
    return found


@pytest.mark.parametrize(("token", "pair"), [(1e-4, 3e-7), (1e-4, 0.0), (0.0, 3e-7)])
def test_both_are_told_apart(token: float, pair: float) -> None:
    assert by_length(steps(token, pair), "update", PROMPT) == pytest.approx((token, pair), rel=1e-6, abs=1e-12)


def test_a_step_that_was_held_up_does_not_count() -> None:
    recorded = steps(1e-4, 3e-7)
    recorded[3].phases["update"] += 0.3
    found = by_length(recorded, "update", PROMPT)
    others = [step for step in recorded if step is not recorded[3]]
    taken = [sum(found[power - 1] * (length + PROMPT) ** power for length in step.lengths for power in (1, 2)) for step in others]
    assert taken == pytest.approx([step.phases["update"] for step in others], rel=0.35)


def test_neither_is_below_nothing() -> None:
    recorded = [RecordedStep(index, 1.0, (n,), {"update": 1 / n}, {}) for index, n in enumerate((10, 100, 1000))]
    assert min(by_length(recorded, "update", PROMPT)) >= 0


def test_two_steps_tell_of_tokens_alone_and_a_phase_that_is_not_there_takes_nothing() -> None:
    assert by_length(steps(1e-4, 3e-7)[:2], "update", PROMPT)[1] == 0
    assert by_length(steps(1e-4, 3e-7), "inference", PROMPT) == (0, 0)
