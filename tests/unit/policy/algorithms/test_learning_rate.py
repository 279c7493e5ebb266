import pytest

from engine.config.algorithm import AlgorithmConfig
from engine.policy.algorithms.learning_rate import learning_rate


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.25, 0.5, 0.75, 1, 1, 1, 1, 1]),
        ("linear", [0.25, 0.5, 0.75, 1, 0.8, 0.6, 0.4, 0.2]),
        ("cosine", [0.25, 0.5, 0.75, 1, 0.9045, 0.6545, 0.3455, 0.0955]),
    ],
)
def test_the_rate_rises_and_then_falls_as_it_is_told_to(schedule: str, expected: list[float]) -> None:
    config = AlgorithmConfig.model_validate({"learning_rate": 0.5, "steps": 8, "warmup_steps": 3, "schedule": schedule})
    assert [learning_rate(config, step) / 0.5 for step in range(8)] == pytest.approx(expected, abs=1e-4)


def test_a_run_that_is_all_warm_up_never_falls() -> None:
    config = AlgorithmConfig(learning_rate=1.0, steps=2, warmup_steps=9, schedule="linear")
    assert [learning_rate(config, step) for step in range(2)] == [0.1, 0.2]
