"""At which lengths the cost of a step is measured, and what later runs need not measure again."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from native_cases import make_target, random_drafter

from engine.errors import ModelError
from engine.rollout.native import cost_measurement
from engine.rollout.native.cost_measurement import cost_table, lengths
from engine.rollout.native.runner import Runner
from engine.speculation.tuner.cost_table import CostTable, Grid


def make_runner(cache_tokens: int | None = None) -> Runner:
    target = make_target(hidden=16, layers=1)
    runner = Runner(target.config, torch.empty(0), drafting=True, cache_tokens=cache_tokens)
    runner.target.load(target.state_dict())
    assert runner.drafter
    runner.drafter.load(random_drafter(target))
    return runner


@pytest.fixture
def runner() -> Runner:
    return make_runner()


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (300, [64, 640]),
        (1280, [64, 640]),
        (2048, [64, 640, 2048]),
        (4096, [64, 640, 2560]),
        (33_024, [64, 640, 2560, 10_240, 33_024]),
    ],
)
def test_lengths_reach_up_to_the_longest_response(limit: int, expected: list[int]) -> None:
    assert lengths(limit) == expected


def test_a_run_measures_what_is_longer_than_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Runner) -> None:
    measured: list[tuple[int, int]] = []
    real = cost_measurement.measure

    def counted(runner: Runner, batches: Sequence[int], vocabulary: int, at: Sequence[int] = cost_measurement.LENGTHS) -> CostTable:
        measured.extend((batches[-1], length) for length in at)
        return real(runner, batches, vocabulary, at)

    monkeypatch.setattr(cost_measurement, "measure", counted)
    monkeypatch.setattr(cost_measurement, "MOST_POSITIONS", 3000)
    first = cost_table(tmp_path, runner, "model", 1, 48, 300)
    longer = cost_table(tmp_path, runner, "model", 1, 48, 1500)
    assert measured == [(1, 64), (1, 640), (1, 1500)]
    assert [first.target.lengths, longer.target.lengths] == [[64.0, 640.0], [64.0, 640.0, 1500.0]]
    assert cost_table(tmp_path, runner, "model", 1, 48, 700).target == longer.target
    assert len(measured) == 3
    monkeypatch.setattr(cost_measurement, "code_of", lambda _: "of another version")
    cost_table(tmp_path, runner, "model", 1, 48, 300)
    assert measured[3:] == measured[:2], "another code's costs are others"
    assert longer.target(1, 1, 1500) >= longer.target(1, 1, 640)
    assert isinstance(longer.draft, Grid)


def test_code_is_another_after_a_change(tmp_path: Path) -> None:
    def written(**files: str) -> str:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        cost_measurement.code_of.cache_clear()
        return cost_measurement.code_of(tmp_path)

    found = [written(one="pass", two=""), written(one="", two="pass"), written(three="")]
    assert len({*found}) == 3
    (tmp_path / ".#one.py").symlink_to("nowhere")  # as Emacs leaves beside a file that is edited
    assert written() == found[-1]


def test_a_small_cache_is_measured_with_one_request(tmp_path: Path) -> None:
    """At lengths that its own requests never reach, and that it has no room for."""
    runner = make_runner(cache_tokens=128)
    table = cost_table(tmp_path, runner, "model", 2, 48, 100)
    assert (table.target.batches, table.target.lengths) == ([1.0], [64.0, 640.0])
    with pytest.raises(ModelError, match="room for 128 tokens"):
        runner.reserve(1, 640)
    assert cost_table(tmp_path, make_runner(), "model", 2, 48, 100).target.batches == [1.0, 4.0], "which is no table of a larger one"


def test_what_a_full_gpu_measured_with_few_requests_grows_by_lengths_alone(tmp_path: Path, runner: Runner) -> None:
    table = cost_table(tmp_path, runner, "model", 2, 48, 100)
    (file,) = tmp_path.iterdir()
    grids = (Grid(each.batches[:1], each.widths, each.lengths, each.seconds[:1]) for each in (table.target, table.draft))
    CostTable(*grids).save(file)
    longer = cost_table(tmp_path, runner, "model", 2, 48, 1500)
    assert (longer.target.batches, longer.target.lengths) == ([1.0], [64.0, 640.0, 1500.0])


def test_a_long_length_is_measured_with_few_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Runner) -> None:
    monkeypatch.setattr(cost_measurement, "MOST_POSITIONS", 3000)
    monkeypatch.setattr(cost_measurement, "VERIFIED", (1, 3))
    table = cost_table(tmp_path, runner, "model", 2, 48, 1500)
    assert runner.cache.slots == 0, "its memory is free again"
    assert table.target(4, 1, 1500) - table.target(4, 1, 640) == pytest.approx(4 * (table.target(1, 1, 1500) - table.target(1, 1, 640)))


@pytest.mark.parametrize(("threads", "counts"), [(1, False), (2, True)])
def test_to_wait_for_a_busy_core_is_no_cost_of_a_step(monkeypatch: pytest.MonkeyPatch, threads: int, counts: bool) -> None:
    """What was measured beside other work is kept: runs never drafted after it. Threads wait for each other: that counts."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (cost_measurement._time(lambda: time.sleep(0.1)) >= 0.1) == counts
