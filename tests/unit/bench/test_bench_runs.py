"""Benchmarks of whole runs: what their curves say, and that none is repeated."""

from pathlib import Path

import pytest
import yaml

from engine.bench import learning, tail
from engine.bench.algorithms import summary
from engine.bench.runs import finished, metric, run_engine
from engine.config import parse
from engine.events import EventWriter, RunFinished, StepFinished

CONFIG = {"seed": 1, "algorithm": {"steps": 1, "learning_rate": 2e-5}}


def keep(folder: Path, *, end: bool) -> None:
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    writer = EventWriter(folder / "events.jsonl")
    writer.write(StepFinished(step=0, seconds=1.0, phases={}, metrics={"reward_mean": 0.25}))
    if end:
        writer.write(RunFinished(steps=1))
    writer.close()


def test_a_finished_run_of_the_same_configuration_is_not_repeated(tmp_path: Path) -> None:
    assert finished(tmp_path, CONFIG) == []
    keep(tmp_path, end=False)
    assert finished(tmp_path, CONFIG) == []
    keep(tmp_path, end=True)
    assert finished(tmp_path, CONFIG | {"seed": 2}) == []
    assert metric(run_engine(tmp_path, CONFIG), "reward_mean") == [0.25, 0.25]


def test_a_policy_learns_if_the_reward_rises_by_more_than_the_seeds_spread() -> None:
    rising = summary([[0.1] * 30 + [0.5] * 30, [0.1] * 30 + [0.7] * 30])
    assert (rising["start"], rising["end"], rising["spread"], rising["learns"]) == (0.1, 0.6, 0.141, True)
    assert not summary([[0.5] * 30 + [0.4] * 30, [0.5] * 30 + [0.8] * 30])["learns"]


def test_a_mean_is_inside_the_band_where_no_seed_of_the_others_is_alike() -> None:
    low, high = [0.0] * 12, [1.0] * 12
    assert learning.inside([[0.5] * 12], [low, high]) == 1
    assert learning.inside([[1.5] * 12, [0.0] * 12], [low, high]) == 1
    assert learning.inside([[1.5] * 12], [low, high]) == 0
    assert learning.inside([[0.5] * 10 + [9.0] * 2], [low, high]) == pytest.approx(1 / 3)


def test_curves_are_the_same_until_they_part() -> None:
    assert learning.same([1, 2, 3], [1, 2, 3]) == 3
    assert learning.same([1, 2, 3], [1, 4, 3]) == 1


def test_every_arm_is_a_valid_run() -> None:
    for arm in learning.ARMS:
        assert parse(learning.configuration("tiny", arm, 1, 100)).speculation.enabled == (arm != "plain")
    for arm in tail.ARMS:
        parsed = parse(tail.configuration("tiny", arm, 1, 10))
        assert parsed.speculation.enabled == arm.startswith("tlt")
        assert parsed.rollout.scheduling.asynchronous == arm.endswith("asynchronous")
