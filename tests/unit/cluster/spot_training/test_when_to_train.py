import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from engine.cluster.spot_training.session_value import SessionValue
from engine.cluster.spot_training.when_to_train import LEAST_MICROSTEPS, TrainingHistory, decide, moved, rolled_out
from engine.cluster.spot_training.when_to_train import trained as trained_for
from engine.config import TriggerConfig
from engine.speculation.counterfactual import DecodeSeconds

CONFIG = TriggerConfig(patience=2, least_gain=0.01, every=10, acceptance_drop=0.1, drift=0.02)


def trained(history: TrainingHistory, step: int, gain: float, config: TriggerConfig) -> TrainingHistory:
    """After a session of average length."""
    return trained_for(history, step, gain, 20, config)


def flat_since(step: int) -> TrainingHistory:
    return trained(trained(TrainingHistory(), step - 1, 0.0, CONFIG), step, -0.01, CONFIG)


def test_training_goes_on_as_long_as_it_helps() -> None:
    history = TrainingHistory()
    for step, gain in enumerate([0.0, 0.01, 0.005, 0.3, -0.2]):
        assert decide(history, step, CONFIG).train, "never two flat sessions in a row"
        history = trained(history, step, gain, CONFIG)
    assert decide(trained(history, 5, 0.009, CONFIG), 6, CONFIG).train is False


def test_by_default_the_first_steps_all_train() -> None:
    history, config = TrainingHistory(), TriggerConfig()
    for step in range(3):
        assert decide(history, step, config).train
        history = trained(history, step, 0.0, config)
    assert not decide(history, 3, config).train


def test_flat_steps_are_skipped_but_not_for_ever() -> None:
    history = flat_since(20)
    assert [step for step in range(21, 25) if decide(history, step, CONFIG).train] == [22, 23, 24]
    assert decide(history, 22, CONFIG).reason == "2 steps since the last session"
    assert decide(history, 21, CONFIG).reason == "acceptance is flat, and so were 2 sessions"


MANY = 10**6
"""First drafts, of which chance tells nothing."""


def rolled(history: TrainingHistory, rate: float) -> TrainingHistory:
    return rolled_out(history, MANY, round(rate * MANY))


def worth(cost: float, learned: float = 10.0) -> SessionValue:
    """Sessions save 0.01 / 1.01 of ``learned`` seconds a step each, and cost so many seconds."""
    value = SessionValue()
    value.rolled_out(0, [DecodeSeconds(learned, learned, learned, learned)], {}, 0.0)
    value.trained(0.0, cost)
    return value


def test_what_does_not_pay_any_more_is_declined() -> None:
    history, value = trained(TrainingHistory(), 20, 0.3, CONFIG), worth(0.5)
    assert [left for left in range(10) if decide(history, 21, CONFIG, value, left).train] == [6, 7, 8, 9]
    assert decide(history, 21, CONFIG, value, 2).reason == "training costs more than it would save"
    assert decide(history, 21, CONFIG, worth(0.0), 0).train, "what costs nothing"
    assert decide(TrainingHistory(), 21, CONFIG, value, 0).train, "an older version is back"


def test_a_step_in_five_is_left_until_it_is_known_what_training_costs() -> None:
    history, value = trained(TrainingHistory(), 20, 0.3, CONFIG), worth(0.0)
    assert all(decide(history, step, CONFIG, value, 50).train for step in range(21, 30))
    value.trained(0.0, 0.0)
    assert [step for step in range(21, 31) if not decide(history, step, CONFIG, value, 50).train] == [24, 29]
    assert decide(history, 24, CONFIG, value, 50).reason.startswith("training costs are measured")
    assert decide(history, 34, CONFIG, value, 50).train, "which is due"


def test_what_is_due_is_trained_all_the_same() -> None:
    """What is known of it may be out of date."""
    history, value = trained(rolled(TrainingHistory(), 0.8), 20, 0.3, CONFIG), worth(100.0)
    assert not decide(history, 29, CONFIG, value, 5).train
    assert decide(history, 30, CONFIG, value, 5).train
    assert decide(rolled(history, 0.7), 21, CONFIG, value, 5).train, "acceptance fell"
    assert decide(moved(history, 0.02), 21, CONFIG, value, 5).train, "what is known is of another target"
    assert decide(history, 21, CONFIG.model_copy(update={"every": 1}), value, 0).train


def test_an_infinite_drift_is_never_reached() -> None:
    assert decide(moved(flat_since(20), 1e6), 21, CONFIG).train
    assert not decide(moved(flat_since(20), 1e6), 21, CONFIG.model_copy(update={"drift": math.inf})).train


def test_sessions_that_stay_flat_become_rare() -> None:
    history, sessions = flat_since(0), []
    for step in range(1, 45):
        if decide(history, step, CONFIG).train:
            history = trained(history, step, 0.0, CONFIG)
            sessions.append(step)
    assert sessions == [2, 6, 14, 24, 34, 44]
    assert decide(trained(history, 45, 0.01, CONFIG), 46, CONFIG).train, "until one helps again"


def test_a_session_that_was_soon_over_is_no_sign_of_flatness() -> None:
    history = trained(TrainingHistory(), 0, 0.0, CONFIG)
    for step in range(1, 20):
        history = trained_for(history, step, -0.1, LEAST_MICROSTEPS - 1, CONFIG)
    assert decide(history, 20, CONFIG).train
    assert not decide(trained_for(history, 20, -0.1, LEAST_MICROSTEPS, CONFIG), 21, CONFIG).train


def test_every_step_can_be_asked_for() -> None:
    assert decide(flat_since(20), 21, CONFIG.model_copy(update={"every": 1})).train


@pytest.mark.parametrize(("rate", "train"), [(0.8, False), (0.721, False), (0.717, True), (0.0, True)])
def test_a_drop_of_acceptance_trains(rate: float, train: bool) -> None:
    history = rolled(rolled(rolled(flat_since(20), 0.7), 0.8), rate)
    decision = decide(history, 21, CONFIG)
    assert decision.train == train
    assert not train or decision.reason == f"acceptance fell from 80% to {rate:.0%}"


@pytest.mark.parametrize(("first", "later"), [(1000, 1000), (100, 10_000), (10_000, 100)])
def test_chance_is_no_drop(first: int, later: int) -> None:
    """The rate of 100 drafts has a standard error of 5 points."""
    config, falls = CONFIG.model_copy(update={"acceptance_drop": 0.03}), 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        lucky = rolled_out(flat_since(20), first, int(rng.binomial(first, 0.6)))
        falls += decide(rolled_out(lucky, later, int(rng.binomial(later, 0.6))), 21, config).train
    assert falls <= 10
    fallen = rolled_out(rolled_out(flat_since(20), first, round(0.6 * first)), later, round(0.4 * later))
    assert decide(fallen, 21, config).train


def test_a_few_drafts_say_nothing_about_acceptance() -> None:
    history = rolled(flat_since(20), 0.8)
    assert rolled_out(history, 63, 0) == history
    assert rolled_out(history, 0, 0) == history


def test_rollouts_are_compared_with_that_of_the_last_session() -> None:
    history = trained(rolled(rolled(flat_since(20), 0.9), 0.7), 22, 0.0, CONFIG)
    assert not decide(history, 23, CONFIG).train, "it was trained at that level"
    assert not decide(rolled(history, 0.631), 23, CONFIG).train
    assert decide(rolled(history, 0.628), 23, CONFIG).train


def test_a_session_without_drafts_leaves_it_to_the_first_rollout_after_it() -> None:
    history = rolled(flat_since(20), 0.7)
    assert not decide(history, 21, CONFIG).train
    assert decide(rolled(history, 0.6), 21, CONFIG).train


@pytest.mark.parametrize(("drift", "train"), [(0.019, False), (0.02, True)])
def test_a_target_that_has_moved_trains(drift: float, train: bool) -> None:
    assert decide(moved(flat_since(20), drift), 21, CONFIG).train == train
    assert not decide(trained(moved(flat_since(20), drift), 21, 0.0, CONFIG), 22, CONFIG).train


def test_a_session_that_helps_again_is_repeated() -> None:
    assert decide(trained(flat_since(20), 30, 0.01, CONFIG), 31, CONFIG).train


def test_history_survives_a_checkpoint() -> None:
    history = moved(rolled(flat_since(20), 0.8), 0.01)
    assert history.best_error
    assert TrainingHistory(**json.loads(json.dumps(asdict(history)))) == history
