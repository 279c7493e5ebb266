import pytest

from engine.cluster.distributed_rollout.finish_forecast import FinishForecaster, pace, remaining_tokens
from engine.rollout.interface import GenerationProgress


def test_the_last_request_decides_where_all_run_at_once() -> None:
    assert remaining_tokens(GenerationProgress(0.0, {1: 5, 2: 5}, {1: 30.0, 2: 70.0}), slots=2) == 70.0


def test_requests_that_wait_take_their_turn() -> None:
    assert remaining_tokens(GenerationProgress(0.0, {1: 5, 2: 5}, {1: 30.0, 2: 70.0, 3: 60.0, 4: 80.0}), slots=2) == 120.0
    assert remaining_tokens(GenerationProgress(0.0, {}, {}), slots=2) == 0.0


def test_the_pace_is_that_of_a_request_that_ran_all_the_time() -> None:
    before, now = GenerationProgress(10.0, {1: 100, 2: 20}, {}), GenerationProgress(12.0, {1: 150, 2: 60, 3: 10}, {})
    assert pace(before, now) == 25.0
    assert pace(now, now) == 0.0
    assert pace(before, GenerationProgress(12.0, {}, {})) == 0.0


def test_a_share_that_slows_down_is_predicted_by_its_newest_pace() -> None:
    forecaster = FinishForecaster(100.0, slots=4)
    assert forecaster.seconds(GenerationProgress(100.05, {1: 0}, {1: 50.0})) is None, "nothing generated, so nothing to judge by"
    assert forecaster.seconds(GenerationProgress(101.0, {1: 95}, {1: 50.0})) == pytest.approx(50 / 100)
    assert forecaster.seconds(GenerationProgress(102.0, {1: 115}, {1: 30.0})) == pytest.approx(30 / 20)
    assert forecaster.seconds(GenerationProgress(102.01, {1: 116}, {1: 29.0})) == pytest.approx(29 / 20), "too soon for a new pace"
    assert forecaster.seconds(GenerationProgress(103.0, {}, {})) == 0.0


def test_a_share_that_stands_still_keeps_its_pace() -> None:
    forecaster = FinishForecaster(0.0, slots=1)
    forecaster.seconds(GenerationProgress(1.0, {1: 10}, {1: 40.0}))
    assert forecaster.seconds(GenerationProgress(2.0, {1: 10}, {1: 40.0})) == pytest.approx(4.0)
