"""What benchmarks share."""

import time
from functools import partial

import pytest

from engine.bench.testbed import Bed, timed
from engine.rollout.interface import Completion, Sampling


def test_a_rollout_is_timed_though_another_takes_its_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """As asynchronous rollouts do, again and again. The time is the whole rollout's, the tokens are those since the last taking."""
    bed, now = Bed("tiny"), [0.0]
    engine = bed.engine(None)

    def finished(_: Completion) -> None:
        now[0] += 1
        engine.take_statistics()

    monkeypatch.setattr(engine, "generate", partial(engine.generate, on_finish=finished))
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    rollout = timed(engine, bed.requests(3), Sampling(max_new_tokens=4))
    assert rollout.seconds == len(rollout.completions) == 3
    assert rollout.rate == rollout.statistics.tokens / 3 == 0
