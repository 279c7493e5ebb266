"""BEG-MAB against Algorithm 1, worked out by hand."""

import json
import random
from collections import Counter
from typing import Any

import pytest

from engine.config import BegConfig, DrafterName, SpeculationConfig
from engine.events import ArmStatistics
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.beg_bandit import BegTuner
from engine.speculation.tuner.factory import build_tuner
from engine.speculation.tuner.fixed import FixedTuner
from engine.speculation.tuner.goodput import GoodputTuner
from engine.speculation.tuner.interface import Tuner

LONG, LONGER, SHORT = Strategy("eagle", 6, 1, 6), Strategy("eagle", 8, 1, 6), Strategy("eagle", 2, 1, 2)


class Script(random.Random):
    """Random numbers from a list; ``choice`` takes the last arm."""

    def __init__(self, numbers: list[float]) -> None:
        super().__init__()
        self.numbers = numbers

    def random(self) -> float:
        return self.numbers.pop(0)

    def choice(self, seq: Any) -> Any:
        return seq[-1]


def make(rng: random.Random, window: int = 3, epsilon: float = 0.2) -> BegTuner:
    """Two buckets: batches 1 to 3 with two strategies of verify 6, larger ones with one of verify 2; off in both."""
    return BegTuner([SHORT, LONG, LONGER], BegConfig(epsilon=epsilon, window=window, thresholds=(1, 4)), rng)


def test_golden_trace() -> None:
    """Rewards are (sum of accepted / batch + 1) * batch / seconds: generated tokens per second."""
    rng = Script([0.5, 0.2, 0.19, 0.5, 0.5, 0.5])
    tuner = make(rng)
    assert tuner.select(Context(3)) == LONG
    tuner.record(LONG, Context(3), [4, 0, 2], 0.5)  # (6 + 3) / 0.5 = 18
    assert tuner.select(Context(1)) == LONGER
    tuner.record(LONGER, Context(1), [3], 0.25)  # 16
    assert tuner.select(Context(2)) == OFF
    tuner.record(OFF, Context(2), [0, 0], 0.25)  # 8
    assert rng.numbers == [0.5, 0.2, 0.19, 0.5, 0.5, 0.5], "arms that were never tried take no random number"
    assert tuner.select(Context(2)) == LONG  # 0.5 exploits
    tuner.record(LONG, Context(2), [0, 0], 0.25)  # 8: median of 18 and 8 is 13
    assert tuner.select(Context(2)) == LONGER  # 0.2 is not below epsilon: exploits; 16 > 13 > 8
    tuner.record(LONGER, Context(2), [1, 0], 0.5)  # 6: median of 16 and 6 is 11
    assert tuner.select(Context(3)) == OFF  # 0.19 explores; the script takes the last arm
    tuner.record(OFF, Context(3), [0, 0, 0], 0.1)  # 30: median of 8 and 30 is 19
    assert tuner.select(Context(1)) == OFF  # 19 > 13 > 11
    tuner.record(OFF, Context(1), [0], 0.5)  # 2: median of 8, 30, 2 is 8
    assert tuner.select(Context(1)) == LONG  # 13 > 11 > 8
    tuner.record(OFF, Context(1), [0], 0.05)  # 20; the window of three drops the first 8: median of 30, 2, 20 is 20
    assert tuner.select(Context(1)) == OFF
    assert not rng.numbers
    assert tuner.select(Context(4)) == SHORT
    tuner.record(SHORT, Context(4), [1, 1, 1, 1], 1.0)
    assert tuner.select(Context(100)) == OFF, "the off arm of one bucket knows nothing of the other's"


def test_golden_trace_of_algorithm_1_to_the_letter() -> None:
    """Without the off arm: the only strategy of a bucket takes no random number and is never doubted; deques of length w = 2."""
    rng = Script([0.1, 0.09, 0.5, 0.5])
    config = BegConfig(epsilon=0.1, window=2, thresholds=(1, 4), off_arm=False)
    tuner = BegTuner([SHORT, LONG, LONGER], config, rng)
    assert tuner.select(Context(1)) == LONG
    tuner.record(LONG, Context(1), [5], 0.5)  # a = 6, r = 12
    assert tuner.select(Context(2)) == LONGER
    tuner.record(LONGER, Context(2), [3, 4], 1.0)  # a = 4.5, r = 9
    assert tuner.select(Context(3)) == LONG  # 0.1 is not below epsilon: argmax of 12 and 9
    tuner.record(LONG, Context(3), [0, 0, 0], 1.0)  # r = 3: median of 12 and 3 is 7.5
    assert tuner.select(Context(3)) == LONGER  # 0.09 explores; the script takes the last arm
    tuner.record(LONGER, Context(3), [1, 0, 2], 1.2)  # r = 5: median of 9 and 5 is 7
    assert tuner.select(Context(1)) == LONG  # 7.5 > 7
    tuner.record(LONG, Context(1), [0], 0.5)  # r = 2; the deque drops the 12: median of 3 and 2 is 2.5
    assert tuner.select(Context(1)) == LONGER  # 7 > 2.5
    assert not rng.numbers
    for _ in range(3):
        assert tuner.select(Context(4)) == SHORT
        tuner.record(SHORT, Context(4), [0] * 4, 9.0)
    tuner.record(OFF, Context(4), [0] * 4, 0.001)
    assert tuner.select(Context(4)) == SHORT, "plain decoding is measured by others only"


def test_what_was_learnt_of_other_strategies_is_left_out() -> None:
    """A run with rollout.engine=auto may go on in another engine, which has chains in place of trees."""
    before, tree = make(Script([0.9] * 8)), Strategy("eagle", 6, 4, 24)
    before.record(OFF, Context(1), [0], 0.5)
    other = BegTuner([SHORT, tree], BegConfig(epsilon=0.0, thresholds=(1, 4)), random.Random(0))
    other.load_state(before.state())
    again = make(random.Random(0))
    again.load_state(other.state())
    assert again.state() == before.state()


def test_only_drafters_that_can_be_asked_are_chosen() -> None:
    """Also when all others would come first, and when nothing is left."""
    ngram: frozenset[DrafterName] = frozenset(("none", "ngram"))
    none: frozenset[DrafterName] = frozenset(("none",))
    suffix = Strategy("ngram", 6, 1, 6)
    tuner = BegTuner([LONG, suffix], BegConfig(epsilon=0.5), random.Random(0))
    assert [tuner.select(Context(1, drafters=drafters)) for drafters in (ngram, none)] == [suffix, OFF]
    for arm in (LONG, suffix, OFF):
        tuner.record(arm, Context(1), [0], 0.1 if arm == LONG else 1.0)
    assert {tuner.select(Context(1, drafters=ngram)) for _ in range(50)} == {suffix, OFF}
    assert FixedTuner(LONG).select(Context(1, drafters=ngram)) == OFF
    assert BegTuner([LONG], BegConfig(off_arm=False), random.Random(0)).select(Context(1, drafters=ngram)) == OFF


def test_thresholds_double_unless_given_and_one_belongs_to_each_group() -> None:
    strategies = [Strategy("eagle", n, 1, n) for n in (3, 7, 5)]
    tuner = BegTuner(strategies, BegConfig(), random.Random(0))
    assert {batch: tuner.select(Context(batch)).verify for batch in (1, 2, 3, 4, 500)} == {1: 7, 2: 5, 3: 5, 4: 3, 500: 3}
    with pytest.raises(ValueError, match="zip"):
        BegTuner(strategies, BegConfig(thresholds=(1, 4)), random.Random(0))


def test_bounds_of_buckets() -> None:
    config = BegConfig(thresholds=(1, 3, 8))
    tuner = BegTuner([Strategy("eagle", n, 1, n) for n in (3, 7, 5)], config, random.Random(0))
    assert {batch: tuner.select(Context(batch)).verify for batch in (1, 2, 3, 7, 8, 1000)} == {1: 7, 2: 7, 3: 5, 7: 5, 8: 3, 1000: 3}


def test_exploration_is_uniform_at_rate_epsilon() -> None:
    tuner = make(random.Random(1), epsilon=0.3)
    for arm, seconds in ((LONG, 1.0), (LONGER, 2.0), (OFF, 3.0)):
        tuner.record(arm, Context(1), [0], seconds)
    chosen = Counter(tuner.select(Context(1)) for _ in range(30_000))
    assert chosen[LONG] / 30_000 == pytest.approx(0.8, abs=0.01)
    assert chosen[LONGER] / 30_000 == pytest.approx(0.1, abs=0.01)
    assert chosen[OFF] / 30_000 == pytest.approx(0.1, abs=0.01)


def test_it_finds_the_best_arm_and_follows_a_change() -> None:
    tuner = make(random.Random(2), window=16, epsilon=0.1)

    def best_share(rates: dict[Strategy, float], steps: int, best: Strategy) -> float:
        chosen = []
        for _ in range(steps):
            chosen.append(tuner.select(Context(2)))
            tuner.record(chosen[-1], Context(2), [0, 0], 1 / rates[chosen[-1]])
        return chosen[-200:].count(best) / 200

    assert best_share({LONG: 3.0, LONGER: 2.0, OFF: 1.0}, 300, LONG) > 0.85
    assert best_share({LONG: 0.5, LONGER: 0.6, OFF: 1.0}, 1000, OFF) > 0.85


def test_state_survives_a_checkpoint() -> None:
    def drive(tuner: Tuner, steps: int) -> list[Strategy]:
        chosen = []
        for step in range(steps):
            chosen.append(tuner.select(Context(1 + step % 6)))
            tuner.record(chosen[-1], Context(1 + step % 6), [step % 3] * (1 + step % 6), 0.1 + hash(chosen[-1]) % 7 / 10)
        return chosen

    tuner = make(random.Random(3))
    drive(tuner, 50)
    state = json.loads(json.dumps(tuner.state()))
    resumed = make(random.Random(99))
    resumed.load_state(state)
    assert resumed.state() == tuner.state()
    assert drive(resumed, 60) == drive(tuner, 60)


def test_arm_statistics() -> None:
    tuner = make(random.Random(0))
    tuner.record(LONG, Context(3), [4, 0, 2], 0.5)
    tuner.record(LONG, Context(2), [1, 1], 0.25)
    tuner.record(OFF, Context(5), [0] * 5, 1.0)
    assert tuner.take_arms() == [
        ArmStatistics(bucket=1, strategy="eagle d6 k1 v6", pulls=2, requests=5, accepted=8, seconds=0.75),
        ArmStatistics(bucket=4, strategy="off", pulls=1, requests=5, accepted=0, seconds=1.0),
    ]
    assert tuner.take_arms() == []


def test_the_configured_tuner_is_built() -> None:
    strategies = [{"depth": verify, "verify": verify} for verify in (3, 7)]
    beg = build_tuner(SpeculationConfig.model_validate({"strategies": strategies, "tuner": {"name": "beg", "thresholds": [1, 4]}}), 0)
    assert isinstance(beg, BegTuner)
    assert [beg.select(Context(batch)).verify for batch in (1, 3, 4)] == [7, 7, 3]
    fixed = build_tuner(SpeculationConfig.model_validate({"strategies": strategies, "tuner": {"name": "fixed"}}), 0)
    assert isinstance(fixed, FixedTuner)
    assert fixed.select(Context(9)) == Strategy("eagle", 3, 1, 3)
    fixed.record(fixed.select(Context(9)), Context(9), [2] * 9, 1.0)
    assert fixed.take_arms() == [ArmStatistics(bucket=1, strategy="eagle d3 k1 v3", pulls=1, requests=9, accepted=18, seconds=1.0)]
    goodput = build_tuner(SpeculationConfig.model_validate({"strategies": strategies, "tuner": {"name": "goodput"}}), 0)
    assert isinstance(goodput, GoodputTuner)
    assert goodput.expected(Strategy("eagle", 7, 1, 7)) > goodput.expected(Strategy("eagle", 3, 1, 3)) > goodput.expected(OFF) == 0
