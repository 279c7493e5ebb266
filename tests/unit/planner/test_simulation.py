"""The simulator against a decoding of one token after the other, and against what must hold whatever the model."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import WORKERS, assumptions, config, steps

from engine.planner.calibration import usual
from engine.planner.hardware import known_gpus
from engine.planner.model_shape import PRESETS
from engine.planner.simulation.acceptance import accepted_tokens, expected
from engine.planner.simulation.decode_costs import Roofline
from engine.planner.simulation.decoding import Array, Pace, decode
from engine.planner.simulation.response_lengths import LogNormal, Recorded
from engine.planner.simulation.run import Simulation
from engine.planner.simulation.strategy_choice import StrategyChoice
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid

FIXED, SLOPE = 0.01, 1e-6


def pace(slots: int) -> Pace:
    batches: Array = np.arange(slots + 1.0, dtype=np.float64)
    return Pace(FIXED + 1e-3 * batches, SLOPE * batches, 0.0, np.zeros(slots + 1))


def token_by_token(lengths: list[int], known: int, slots: int) -> list[float]:
    """When each request ends, by decode steps in which each running request gains a token."""
    waiting, running, ended, now = list(range(len(lengths))), dict[int, int](), [0.0] * len(lengths), 0.0
    while waiting or running:
        while waiting and len(running) < slots:
            running[waiting.pop(0)] = 0
        batch = len(running)
        mean = known + sum(running.values()) / batch + 0.5
        now += FIXED + 1e-3 * batch + SLOPE * batch * mean
        for request in list(running):
            running[request] += 1
            if running[request] == lengths[request]:
                del running[request]
                ended[request] = now
    return ended


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 6))
def test_from_finish_to_finish_is_as_token_by_token(lengths: list[int], slots: int) -> None:
    queue = np.array([[0, 0, *lengths]])
    decoded = decode(queue, np.where(queue > 0, 7, 0), pace(slots))
    expected_ends = token_by_token(lengths, 7, slots)
    assert decoded.seconds[0, 2:] == pytest.approx(expected_ends, rel=1e-9)
    assert decoded.done[0] == pytest.approx(max(expected_ends))


def test_who_drafts_from_the_start_has_nothing_to_catch_up_with() -> None:
    """Drafting pays from a batch of 4 on: seconds are added where the batch falls to that, and nowhere else."""
    slow = np.zeros(7)
    slow[4] = 100.0
    for lengths, caught_up in (([5, 6, 7, 8, 9, 10], 100.0), ([5, 6, 7, 8], 0.0), ([5, 6], 0.0)):
        queue = np.array([lengths])
        with_it, without = (decode(queue, queue * 0, replace(pace(6), switching=each)).done[0] for each in (slow, 0 * slow))
        assert with_it - without == pytest.approx(caught_up)


def test_whole_groups_are_drawn_where_they_have_as_many_members() -> None:
    recorded = Recorded((tuple(range(4, 20)),), "a run", members=4)
    drawn = recorded.draw(0, np.arange(9), 4, 1000)
    assert (drawn % 4).tolist() == [[0, 1, 2, 3]] * 9
    assert recorded.draw(0, np.arange(9), 3, 1000).shape == (9, 3)


def test_what_is_generated_by_a_moment_rises_to_the_lengths() -> None:
    lengths = np.array([[0, 5, 50, 20]])
    decoded = decode(lengths, np.where(lengths > 0, 9, 0), pace(2))
    found = [decoded.generated(moment) for moment in (0.0, decoded.done[0] / 2, decoded.done[0])]
    assert found[0].sum() == 0
    assert 0 < found[1].sum() < found[2].sum()
    assert found[2].round().tolist() == lengths.tolist()


def test_a_step_accounts_for_all_of_its_time() -> None:
    for step in steps(config({"evaluation": {"every": 2}})):
        spans = step.tail.spans
        for worker in range(WORKERS):
            own = [span for span in spans if span.worker == worker]
            assert own[0].start == 0
            assert own[-1].end == pytest.approx(step.rollout_end)
            assert all(before.end == after.start for before, after in pairwise(own))
        assert step.seconds == pytest.approx(sum(step.phases.values()))
        assert ("evaluation" in step.phases) == (step.index % 2 == 1)


def test_every_prompt_is_answered_in_full() -> None:
    run = config()
    for step in steps(run):
        drawn = LogNormal(300, 1.0).draw(step.index, np.arange(16) + 16 * step.index, 4, 2048)
        assert sorted(step.generated[step.shares.group >= 0].tolist()) == sorted(drawn.ravel().tolist())


def test_partial_rollouts_generate_each_response_once() -> None:
    run = config({"rollout": {"scheduling": {"over_sampling": 1.5, "partial": True}}})
    simulated = steps(run, 6)
    fresh = sum(int((step.generated - step.shares.begun).sum()) for step in simulated)
    assert all((step.generated >= step.shares.begun).all() for step in simulated)
    assert max(int(step.shares.begun.max()) for step in simulated) > 0
    assert fresh < sum(int(step.generated.sum()) for step in simulated)


@pytest.mark.parametrize("shape", [Strategy("eagle", 4, 1, 4), Strategy("eagle", 8, 4, 24), Strategy("ngram", 8, 1, 8)])
def test_more_is_accepted_by_a_better_drafter_and_never_more_than_drafted(shape: Strategy) -> None:
    acceptance = usual().acceptance
    found = [accepted_tokens(shape, acceptance, first) for first in (0.3, 0.6, 0.9)]
    assert found == sorted(found)
    assert 0 < found[-1] <= shape.depth
    assert accepted_tokens(OFF, acceptance, 0.9) == 0
    assert expected([0.5, 0.5]) == 0.75


def test_a_wider_tree_accepts_more_and_costs_more() -> None:
    acceptance = usual().acceptance
    narrow, wide = Strategy("eagle", 8, 8, 16), Strategy("eagle", 8, 8, 64)
    assert accepted_tokens(narrow, acceptance, 0.8) < accepted_tokens(wide, acceptance, 0.8)
    table = Roofline(PRESETS["32B"], known_gpus()["h100"], 4, usual().efficiency).table()
    assert table.seconds(narrow, Context(8, 1000)) < table.seconds(wide, Context(8, 1000))


def test_a_drafter_from_nothing_learns_and_the_target_drifts_away_from_one_that_does_not() -> None:
    fresh = steps(config({"drafter": {"path": None}}), 6)
    firsts = [step.first for step in fresh]
    assert firsts[0] == pytest.approx(0.4)
    assert firsts[-1] > 0.6
    static = [step.first for step in steps(config({"drafter": {"spot": {"enabled": False}}}), 6)]
    assert static == sorted(static, reverse=True)
    assert static[-1] < static[0]


def test_recorded_lengths_are_replayed_as_they_were() -> None:
    recorded = Recorded(((5, 6, 7, 8), (1, 2, 3, 4)), "a run")
    assert recorded.draw(1, np.arange(2), 2, 100).tolist() == [[1, 2], [3, 4]]
    assert recorded.draw(0, np.arange(2), 2, 6).tolist() == [[5, 6], [6, 6]]
    assert set(recorded.draw(2, np.arange(4), 2, 100).ravel().tolist()) <= {5, 6, 7, 8}


def test_the_seed_decides_everything() -> None:
    run = config()
    first, again = ([step.seconds for step in Simulation(run, assumptions(run)).steps(3)] for _ in range(2))
    assert first == again
    other = config({"seed": 3})
    assert [step.arms for step in Simulation(other, assumptions(other)).steps(2)] != [
        step.arms for step in Simulation(run, assumptions(run)).steps(2)
    ]


def test_slots_that_no_request_is_in_change_nothing() -> None:
    few, many = (steps(config({"rollout": {"max_batch": slots}})) for slots in (16, 256))
    assert [step.seconds for step in few] == pytest.approx([step.seconds for step in many], rel=2e-3)  # only who drafts first catches up
    assert [step.accept_length for step in few] == [step.accept_length for step in many]


def test_steps_of_short_responses_cost_what_the_table_says_of_them() -> None:
    """Not what follows from its costs far beyond."""
    lengths, seconds = (64, 640, 32_768), (1.0e-3, 1.1e-3, 1.0)
    costs = CostTable(Grid((1, 64), (1, 9), lengths, [[seconds] * 2] * 2), Grid((1, 64), (1,), lengths, [[(1e-4,) * 3]] * 2))
    choice = StrategyChoice(config().speculation, costs, usual().acceptance, 4, 640, 0)
    pace = choice.pace(choice.plain(), 0.5, 0.0)
    for known in (64, 300, 640):
        assert pace.fixed[1] + pace.slope[1] * known == pytest.approx(costs.seconds(OFF, Context(1, known)), rel=0.02)
