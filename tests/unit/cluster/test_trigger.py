import json
from dataclasses import asdict

import pytest

from engine.cluster.trigger import History, decide, moved, rolled_out, trained
from engine.config import TriggerConfig

CONFIG = TriggerConfig(patience=2, least_gain=0.01, every=10, acceptance_drop=0.1, drift=0.02)


def flat_since(step: int) -> History:
    return trained(trained(History(), step - 1, 0.0, CONFIG), step, -0.01, CONFIG)


def test_training_goes_on_as_long_as_it_helps() -> None:
    history = History()
    for step, gain in enumerate([0.0, 0.01, 0.005, 0.3, -0.2]):
        assert decide(history, step, CONFIG).train, "never two flat sessions in a row"
        history = trained(history, step, gain, CONFIG)
    assert decide(trained(history, 5, 0.009, CONFIG), 6, CONFIG).train is False


def test_by_default_the_first_steps_all_train() -> None:
    history, config = History(), TriggerConfig()
    for step in range(3):
        assert decide(history, step, config).train
        history = trained(history, step, 0.0, config)
    assert not decide(history, 3, config).train


def test_flat_steps_are_skipped_but_not_for_ever() -> None:
    history = flat_since(20)
    assert [step for step in range(21, 35) if decide(history, step, CONFIG).train] == [30, 31, 32, 33, 34]
    assert decide(history, 30, CONFIG).reason == "10 steps since the last session"
    assert decide(history, 21, CONFIG).reason == "acceptance is flat, and so were 2 sessions"


def test_every_step_can_be_asked_for() -> None:
    assert decide(flat_since(20), 21, CONFIG.model_copy(update={"every": 1})).train


@pytest.mark.parametrize(("accepted", "train"), [(800, False), (721, False), (719, True), (0, True)])
def test_a_drop_of_acceptance_trains(accepted: int, train: bool) -> None:
    history = rolled_out(rolled_out(rolled_out(flat_since(20), 1000, 700), 1000, 800), 1000, accepted)
    decision = decide(history, 21, CONFIG)
    assert decision.train == train
    assert not train or decision.reason == f"acceptance fell from 80% to {accepted / 1000:.0%}"


def test_a_few_drafts_say_nothing_about_acceptance() -> None:
    history = rolled_out(flat_since(20), 1000, 800)
    assert rolled_out(history, 63, 0) == history
    assert rolled_out(history, 0, 0) == history


def test_the_first_rollout_after_a_session_is_what_acceptance_is_compared_with() -> None:
    history = trained(rolled_out(flat_since(20), 1000, 900), 21, 0.0, CONFIG)
    assert not decide(rolled_out(history, 1000, 600), 22, CONFIG).train


@pytest.mark.parametrize(("drift", "train"), [(0.019, False), (0.02, True)])
def test_a_target_that_has_moved_trains(drift: float, train: bool) -> None:
    assert decide(moved(flat_since(20), drift), 21, CONFIG).train == train
    assert not decide(trained(moved(flat_since(20), drift), 21, 0.0, CONFIG), 22, CONFIG).train


def test_a_session_that_helps_again_is_repeated() -> None:
    assert decide(trained(flat_since(20), 30, 0.01, CONFIG), 31, CONFIG).train


def test_history_survives_a_checkpoint() -> None:
    history = moved(rolled_out(flat_since(20), 1000, 800), 0.01)
    assert History(**json.loads(json.dumps(asdict(history)))) == history
