"""Arms of whole runs are valid runs of the default configuration, and what they are told apart by is what their events say."""

from pathlib import Path
from typing import Any

import pytest
from step_events_for_tests import step

from engine.bench import cold_start, drift, e2e, repeats
from engine.bench.algorithms import configuration as algorithm_configuration
from engine.bench.arm_comparison import compared, estimates, step_times, training_step_ratios
from engine.bench.arms import ARMS, Scale, configuration
from engine.config import parse
from engine.config.algorithm import ALGORITHMS, AlgorithmConfig
from engine.errors import ConfigError
from engine.events import AnyEvent
from engine.models.folder import DRAFTER

DATA = Path("/data/repeats.jsonl")
SCALES = {
    f"{name}{' quick' * quick}": scale
    for quick in (True, False)
    for name, scale in (
        e2e.scales(quick)
        | {"drift": drift.scale(quick, "tiny"), "cold": cold_start.scale(quick, "tiny"), "repeats": repeats.scale(quick, "tiny", DATA)}
    ).items()
}


def test_a_scale_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no scale huge; choose one of demo, small, smollm2-135m, uniform"):
        e2e.run(True, "huge", tmp_path)


def test_a_model_that_is_not_on_the_machine_is_refused_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="longtail models get smollm2-135m"):
        e2e.run(True, e2e.REAL, tmp_path)


def test_a_model_that_is_not_on_the_machine_is_left_out_where_all_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    found, skipped = e2e.chosen(False, "all", None)
    assert list(found) == ["demo", "small", "uniform"]
    assert "longtail models get" in skipped[e2e.REAL]


def test_a_model_that_is_there_takes_the_drafter_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    (tmp_path / "models" / e2e.REAL).mkdir(parents=True)
    found, skipped = e2e.chosen(False, "all", DRAFTER)
    assert skipped == {}
    assert parse(configuration(found[e2e.REAL], "tlt", 1)).drafter.path == str(DRAFTER)
    assert parse(configuration(found["demo"], "tlt", 1)).drafter.path == "builtin"
    assert list(e2e.chosen(True, "all", DRAFTER)[1]) == [e2e.REAL]


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_every_arm_is_a_valid_run_with_the_default_kl_term_and_only_plain_does_not_speculate(scale: Scale) -> None:
    for arm in scale.arms:
        config = parse(configuration(scale, arm, 1))
        assert config.algorithm.kl_coefficient == AlgorithmConfig().kl_coefficient > 0
        assert config.speculation.enabled == (arm != "plain")


def test_arms_differ_in_what_they_are_named_after_alone() -> None:
    parsed = {arm: parse(configuration(SCALES["demo"], arm, 1)) for arm in ARMS}
    tlt = parsed["tlt"]
    spot = tlt.drafter.spot.model_copy(update={"enabled": False})
    assert parsed["static"] == tlt.model_copy(update={"drafter": tlt.drafter.model_copy(update={"spot": spot})})
    tuner = parsed["beg"].speculation.tuner
    assert (tuner.name, tlt.speculation.tuner.name) == ("beg", "goodput")
    assert parsed["beg"] == tlt.model_copy(update={"speculation": tlt.speculation.model_copy(update={"tuner": tuner})})


def test_of_the_cold_scenario_no_run_has_a_drafter_at_the_start() -> None:
    assert parse(configuration(SCALES["cold"], "tlt", 1)).drafter.path is None


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_a_valid_run(name: str) -> None:
    assert parse(algorithm_configuration(name, "tiny", 1, 60)).algorithm.name == name


def test_shares_of_a_step_are_of_all_its_seconds() -> None:
    seconds = ((4.0, 2.0), (6.0, 4.0))
    found = step_times([[step(0, whole, rollout=rollout, inference=0.5, update=1.0)] for whole, rollout in seconds])
    assert found["shares"] == {"rollout": 0.6, "inference": 0.1, "update": 0.2, "other": 0.1}
    assert found["not_rollout"] == {"median": 0.417, "least": 0.333, "most": 0.5}
    assert found["step_s"] == {"median": 5.0, "least": 4.0, "most": 6.0}


def test_arms_are_compared_seed_by_seed() -> None:
    def seed(plain: float, tlt: float) -> dict[str, Any]:
        return {"plain": [step(0, plain, rollout=plain - 1)], "tlt": [step(0, tlt, rollout=tlt - 1)]}

    found = compared([seed(5, 2), seed(4, 4), seed(3, 2)], "tlt")
    assert (found["e2e"], found["e2e_min"], found["e2e_max"]) == (1.5, 1.0, 2.5)
    assert (found["r"], found["s"]) == (2.0, 0.75)


def test_estimates_are_held_against_what_the_arm_itself_took() -> None:
    told: list[AnyEvent] = [step(0, 3.0).model_copy(update={"metrics": {"decode_seconds/plain": 6.0}}), step(1, 2.0)]
    plain: list[AnyEvent] = [step(0, 9.0, rollout=8.0), step(1, 9.0, rollout=7.0)]
    found = estimates([{"plain": plain, "static": told, "tlt": told}])
    assert found == {"plain": {"median": 0.75, "least": 0.75, "most": 0.75}}


def test_a_step_with_training_is_compared_with_the_same_step_without() -> None:
    trained = [step(0, 3.0), step(1, 2.2, trained=0.5), step(2, 9.0)]
    assert training_step_ratios(trained, [step(0, 1.0), step(1, 2.0), step(2, 1.0)]) == [pytest.approx(1.1)]
