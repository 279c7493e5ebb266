from typing import Any

import pytest

from engine.cluster.ray_session import ray_session
from engine.config import RunConfig
from engine.errors import AttemptError


def test_a_ray_that_does_not_start_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(**_: Any) -> None:
        raise Exception("The current node timed out\nduring startup.")

    monkeypatch.setattr("ray.init", late)
    with (
        pytest.raises(AttemptError, match=r"too busy: The current node timed out during startup\.; start again later"),
        ray_session(RunConfig().cluster),
    ):
        pass


def test_a_mistake_is_no_reason_to_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(**_: Any) -> None:
        raise ValueError("num_cpus")

    monkeypatch.setattr("ray.init", wrong)
    with pytest.raises(ValueError, match="num_cpus"), ray_session(RunConfig().cluster):
        pass
