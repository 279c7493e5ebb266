"""How busy a machine is: samples beside the work, gone with whoever asked for them."""

import gc
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from engine.telemetry import machine_usage
from engine.telemetry.machine_usage import UsageSampler, sample


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def threads() -> set[threading.Thread]:
    """Those of samplers of earlier tests may end at any time."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("usage")}


def test_a_sample_is_of_this_machine() -> None:
    found = sample()
    assert set(found) == {"cpu_percent", "memory_gb", "memory_percent"}
    assert 0 <= found["cpu_percent"] <= 100
    assert 0 < found["memory_gb"] < psutil.virtual_memory().total / 1e9
    assert 0 < found["memory_percent"] < 100


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_use_is_a_mean_and_memory_a_peak_and_a_failure_costs_only_what_would_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [{"cpu_percent": 30.0, "memory_gb": 5.0}, {"cpu_percent": 10.0, "memory_gb": 7.0}]
    before = threads()
    monkeypatch.setattr(machine_usage, "sample", lambda: sample() if threading.current_thread() in before else samples.pop())
    sampler = UsageSampler(period=0.001)
    until(lambda: not samples and threads() <= before)
    assert sampler.take() == {"cpu_percent": 20.0, "memory_gb": 7.0}
    assert sampler.take() == {}


def test_nothing_is_sampled_for_one_that_is_gone() -> None:
    gc.collect()
    before = threads()
    sampler = UsageSampler(period=0.001)
    while not sampler.take():
        time.sleep(0.01)
    (own,) = threads() - before
    del sampler
    until(lambda: not own.is_alive())
