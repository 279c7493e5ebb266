import pytest

from engine.bench import e2e
from engine.bench.algorithms import configuration
from engine.config import parse
from engine.config.algorithm import ALGORITHMS
from engine.errors import ConfigError


def test_a_scale_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="there is no scale huge; choose one of demo, small, uniform"):
        e2e.run(True, "huge")


@pytest.mark.parametrize("quick", [True, False])
def test_every_arm_of_every_scale_is_a_valid_run_and_only_plain_does_not_speculate(quick: bool) -> None:
    for scale in e2e.scales(quick).values():
        for arm in scale.arms:
            assert parse(e2e.configuration(scale, arm, 1)).speculation.enabled == (arm != "plain")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_a_valid_run(name: str) -> None:
    assert parse(configuration(name, "tiny", 1, 60)).algorithm.name == name
