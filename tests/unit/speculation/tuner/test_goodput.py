"""The tuner against a simulated machine with published step times, and against the best arm in hindsight."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean
from time import process_time

import numpy as np
import pytest

from engine.config import GoodputConfig
from engine.events import ArmStatistics
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid
from engine.speculation.tuner.goodput import GoodputTuner

# facts of TLT, section 5: milliseconds by batch size and drafted tokens, and the share of drafts accepted at least so far
MILLISECONDS = {
    1: (6.52, 7.37, 8.84, 10.33),
    16: (6.90, 7.85, 9.52, 11.20),
    64: (7.77, 9.66, 13.50, 16.83),
    256: (14.49, 27.14, 41.85, 57.40),
}
GOOD = (0.68, 0.39, 0.20, 0.10, 0.05)
BAD = (0.02, 0.0, 0.0, 0.0, 0.0)
K1, K3, K5 = ARMS = [Strategy("eagle", depth, 1, depth) for depth in (1, 3, 5)]
BEST = {1: K3, 16: K3, 64: K1, 256: OFF}
TABLE = CostTable(
    Grid(list(MILLISECONDS), (1, 2, 4, 6), (0,), [[[ms / 1000] for ms in row] for row in MILLISECONDS.values()]),
    Grid((1,), (1,), (0,), [[[0.0]]]),
)


class Machine:
    """Decodes with lognormal noise of 10 % and, in 1 % of the steps, a hiccup that takes ten times as long."""

    def __init__(self, seed: int, accepted: Sequence[float] = GOOD, noise: float = 0.1, hiccups: float = 0.01) -> None:
        self.rng = np.random.default_rng(seed)
        self.accepted, self.noise, self.hiccups = np.array(accepted), noise, hiccups
        self.steps = 0
        self.speed: Callable[[int], float] = lambda _: 1.0
        self.costs: Callable[[Strategy, Context], float] = TABLE.seconds

    def rate(self, strategy: Strategy, context: Context) -> float:
        """Mean tokens a second at normal speed."""
        rate: float = context.batch * (1 + self.accepted[: strategy.verify].sum()) / self.costs(strategy, context)
        return rate

    def best(self, context: Context) -> Strategy:
        return max((OFF, *ARMS), key=lambda arm: self.rate(arm, context))

    def step(self, tuner: GoodputTuner, context: Context) -> Strategy:
        self.steps += 1
        strategy = tuner.select(context)
        draws = self.rng.random((context.batch, 1))
        accepted = (draws < self.accepted[: strategy.verify]).sum(1).tolist()
        disturbed = np.exp(self.rng.normal(0, self.noise)) * (10 if self.rng.random() < self.hiccups else 1)
        tuner.record(strategy, context, accepted, self.costs(strategy, context) / self.speed(self.steps) * disturbed)
        return strategy


def make(seed: int = 0, costs: CostTable | None = TABLE, arms: Sequence[Strategy] = ARMS, **config: float) -> GoodputTuner:
    return GoodputTuner(arms, GoodputConfig.model_validate(config), random.Random(seed), costs)


def efficiency(tuner: GoodputTuner, machine: Machine, contexts: Sequence[Context], against: Strategy | None = None) -> float:
    """Time that the best arm (or ``against``) needs for the same tokens, over the time needed; both without noise."""
    needed = ideal = 0.0
    for context in contexts:
        strategy = machine.step(tuner, context)
        seconds = machine.costs(strategy, context)
        needed += seconds
        ideal += seconds * machine.rate(strategy, context) / machine.rate(against or machine.best(context), context)
    return ideal / needed


def rollout(version: int = 0, steps: int = 400, start: int = 48) -> list[Context]:
    """The batch shrinks from ``start`` to 1 while responses grow."""
    return [Context(max(1, int(start * np.exp(-step / 90))), 100.0 + step, target_version=version) for step in range(steps)]


@pytest.mark.parametrize("batch", BEST)
@pytest.mark.parametrize("costs", [TABLE, None], ids=["table", "no table"])
def test_it_chooses_the_best_arm_of_the_published_table(batch: int, costs: CostTable | None) -> None:
    tuner, machine = make(costs=costs), Machine(0, noise=0.02, hiccups=0.0)
    assert machine.best(Context(batch)) == BEST[batch]
    chosen = Counter(machine.step(tuner, Context(batch)) for _ in range(400))
    assert tuner.best(Context(batch)) == BEST[batch]
    assert chosen[BEST[batch]] > 300


@pytest.mark.parametrize("batch", [*BEST, 5, 100])
@pytest.mark.parametrize("costs", [TABLE, None], ids=["table", "no table"])
def test_after_200_steps_it_is_as_fast_as_the_best_arm_despite_noise_and_hiccups(batch: int, costs: CostTable | None) -> None:
    ratios = []
    for seed in range(3):
        tuner, machine = make(seed, costs), Machine(seed)
        efficiency(tuner, machine, [Context(batch)] * 200)
        ratios.append(efficiency(tuner, machine, [Context(batch)] * 200))
    assert mean(ratios) >= 0.95


@pytest.mark.parametrize("batch", BEST)
@pytest.mark.parametrize("period", ["wave", "jumps"])
def test_a_machine_of_changing_speed_misleads_it_little(batch: int, period: str) -> None:
    tuner, machine = make(3), Machine(3)
    machine.speed = (lambda step: 2 ** np.sin(step / 100)) if period == "wave" else (lambda step: 1.0 + (step // 150) % 2)
    efficiency(tuner, machine, [Context(batch)] * 200)
    assert efficiency(tuner, machine, [Context(batch)] * 600) >= 0.95


def test_a_table_of_another_machine_is_corrected() -> None:
    """Drafting costs a third more than the table says, so that K1 is best at batch 1 as well. The table is worth some measurements."""
    tuner, machine = make(1), Machine(1, noise=0.02, hiccups=0.0)
    factors = {OFF: 1.0, K1: 1.0, K3: 1.3, K5: 1.35}
    machine.costs = lambda arm, context: TABLE.seconds(arm, context) * factors[arm]
    assert machine.best(Context(1)) == K1
    efficiency(tuner, machine, [Context(1)] * 600)
    assert tuner.best(Context(1)) == K1
    ratios = [tuner.seconds(arm, Context(1)) / TABLE.seconds(arm, Context(1)) for arm in (K1, K3)]
    assert ratios[1] / ratios[0] == pytest.approx(1.3, rel=0.1)
    assert tuner.predicted(K3, Context(1)) == TABLE.seconds(K3, Context(1))


def test_what_was_learnt_at_one_batch_size_holds_at_another_at_once() -> None:
    tuner, machine = make(), Machine(0, accepted=(0.9, 0.85, 0.8, 0.75, 0.7))
    assert machine.best(Context(16)) == K5
    assert tuner.best(Context(16)) != K5
    for _ in range(200):
        machine.step(tuner, Context(1))
    assert tuner.best(Context(16)) == tuner.select(Context(16)) == K5
    assert tuner.expected(K5) == pytest.approx(4.0, abs=0.4)


@pytest.mark.parametrize("batch", [1, 16, 64])
def test_it_follows_a_drafter_that_turns_bad_and_good_again(batch: int) -> None:
    soon, later = [], []
    for seed in range(3):
        tuner, machine, context = make(seed), Machine(seed), Context(batch)
        efficiency(tuner, machine, [context] * 300)
        for accepted in (BAD, GOOD, BAD, GOOD):
            machine.accepted = np.array(accepted)
            context = replace(context, drafter_version=context.drafter_version + 1)
            soon.append(efficiency(tuner, machine, [context] * 150))
            later.append(efficiency(tuner, machine, [context] * 150))
    assert mean(soon) >= 0.9
    assert mean(later) >= 0.95


@pytest.mark.parametrize("accepted", [BAD, (0.1, 0.01, 0.0, 0.0, 0.0)], ids=["none", "few"])
def test_an_untrained_drafter_costs_at_most_two_percent(accepted: Sequence[float]) -> None:
    ratios = []
    for seed in range(4):
        tuner, machine = make(seed), Machine(seed, accepted)
        ratios += [efficiency(tuner, machine, rollout(version), against=OFF) for version in (0, 1)]
    assert mean(ratios) >= 0.98
    assert min(ratios) >= 0.96


def test_a_drafter_that_could_not_win_even_with_full_acceptance_is_never_asked() -> None:
    """Six tokens at most, for sixteen times the time; new weights every 100 steps."""
    table = CostTable(Grid((1,), (1, 6), (0,), [[[0.0065], [0.1]]]), Grid((1,), (1,), (0,), [[[0.0]]]))
    tuner, machine = make(costs=table, arms=[K5]), Machine(0, accepted=(1.0, 1.0, 1.0, 1.0, 1.0))
    machine.costs = table.seconds
    assert {machine.step(tuner, Context(1, target_version=step // 100)) for step in range(500)} == {OFF}


@pytest.mark.parametrize(("times", "tried"), [(2.0, True), (5.0, False)])
def test_a_trial_that_would_cost_more_than_it_may_is_not_begun(times: float, tried: bool) -> None:
    """Six tokens with full acceptance, two by the first guess: of three steps that take ``times`` as long, all could win. By the guess
    they cost nothing or nine tokens."""
    table = CostTable(Grid((1,), (1, 6), (0,), [[[0.01], [0.01 * times]]]), Grid((1,), (1,), (0,), [[[0.0]]]))
    tuner, machine = make(costs=table, arms=[K5]), Machine(0, accepted=(0.0,) * 5)
    machine.costs = table.seconds
    assert (K5 in {machine.step(tuner, Context(1)) for _ in range(200)}) is tried


def test_a_drafter_that_has_nothing_to_offer_is_not_asked_at_every_decision() -> None:
    """A step that was to draft and did not is recorded as a plain one, and taught nothing of the drafts."""
    suffix = Strategy("ngram", 5, 1, 5)
    tuner, asked = make(1, arms=[suffix]), []
    for step in range(200):
        if tuner.select(Context(64)) == suffix:
            asked.append(step)
        tuner.record(OFF, Context(64), [0] * 64, TABLE.seconds(OFF, Context(64)))
    assert 0 < len(asked) < 60
    assert tuner.expected(suffix) == make(arms=[suffix]).expected(suffix)


def test_a_rollout_with_a_good_drafter_is_nearly_as_fast_as_in_hindsight() -> None:
    for costs in (TABLE, None):
        tuner, machine = make(4, costs), Machine(4)
        ratios = [efficiency(tuner, machine, rollout(version)) for version in range(3)]
        assert mean(ratios) >= 0.95


def test_only_drafters_that_can_be_asked_are_chosen_and_a_decision_ends_with_them() -> None:
    suffix = Strategy("ngram", 4, 1, 4)
    tuner, machine = make(arms=[*ARMS, suffix]), Machine(0)
    for step in range(300):
        drafters = [("none",), ("none", "ngram"), ("none", "eagle")][step % 7 % 3]
        context = Context(1 + step % 3, drafters=frozenset(drafters))  # type: ignore[arg-type]
        assert machine.step(tuner, context).drafter in drafters
        assert tuner.best(context).drafter in drafters


class Counted(random.Random):
    """Counts decisions."""

    asked = 0

    def getrandbits(self, k: int) -> int:
        self.asked += 1
        return super().getrandbits(k)


def test_a_decision_holds_for_the_interval_at_one_bucket_of_batch_sizes() -> None:
    """Plain decoding comes first. A new choice is checked after three steps, and from then on every five; steps of other batch sizes in
    between change nothing."""
    rng = Counted(1)
    tuner = GoodputTuner(ARMS, GoodputConfig(interval=5), rng, TABLE)
    decided, chosen = [], []
    for step in range(40):
        for context in (Context(4 + step % 4), Context(64)):
            before = rng.asked
            strategy = tuner.select(context)
            tuner.record(strategy, context, [strategy.depth] * context.batch, TABLE.seconds(strategy, context))
            if context.batch < 64:
                chosen.append(strategy)
                decided += [step] * (rng.asked > before)
    assert chosen[:3] == [OFF] * 3
    assert set(chosen[10:]) == {K5}
    assert set(np.diff(decided[-5:])) == {5}


def test_asking_what_is_best_changes_nothing() -> None:
    asked, quiet = make(5), make(5)
    for step in range(60):
        context = Context(1 + step % 20)
        strategy = quiet.select(context)
        asked.best(context), asked.expected(K3), asked.seconds(K3, context)
        assert asked.select(context) == strategy
        for tuner in (asked, quiet):
            tuner.record(strategy, context, [step % 2] * context.batch if strategy != OFF else [0] * context.batch, 0.01)
    assert asked.state() == quiet.state()


def test_state_survives_a_checkpoint() -> None:
    def drive(tuner: GoodputTuner, seed: int) -> list[Strategy]:
        machine = Machine(seed)
        return [machine.step(tuner, Context(1 + step // 10, float(step), step // 50)) for step in range(150)]

    tuner = make(6)
    drive(tuner, 0)
    state = json.loads(json.dumps(tuner.state()))
    resumed = make(99)
    resumed.load_state(state)
    assert resumed.state() == state
    assert drive(resumed, 1) == drive(tuner, 1)


def test_a_state_saved_with_other_strategies_gives_what_fits() -> None:
    tuner, machine = make(), Machine(0)
    for _ in range(300):
        machine.step(tuner, Context(16))
    other = make(arms=[Strategy("ngram", 4, 1, 4), K3, Strategy("eagle", 2, 1, 2)])
    other.load_state(json.loads(json.dumps(tuner.state())))
    assert other.expected(K3) == pytest.approx(tuner.expected(K3))
    assert other.seconds(K3, Context(16)) == pytest.approx(tuner.seconds(K3, Context(16)))
    assert machine.step(other, Context(16)) in (OFF, K3, Strategy("eagle", 2, 1, 2), Strategy("ngram", 4, 1, 4))


def test_arm_statistics() -> None:
    tuner = make()
    tuner.record(K3, Context(3), [3, 0, 2], 0.5)
    tuner.record(K3, Context(2), [1, 1], 0.25)
    tuner.record(OFF, Context(5), [0] * 5, 1.0)
    assert tuner.take_arms() == [
        ArmStatistics(bucket=2, strategy="eagle d3 k1 v3", pulls=2, requests=5, accepted=7, seconds=0.75),
        ArmStatistics(bucket=4, strategy="off", pulls=1, requests=5, accepted=0, seconds=1.0),
    ]
    assert tuner.take_arms() == []


def test_a_step_costs_little_of_the_processor() -> None:
    """About 40 microseconds were measured; the bound leaves room for slow machines."""
    tuner = make()
    contexts, accepted = [Context(16, float(step)) for step in range(2000)], [1] * 16
    seconds = []
    for first in range(0, len(contexts), 100):
        some = contexts[first : first + 100]
        began = process_time()
        for context in some:
            strategy = tuner.select(context)
            tuner.record(strategy, context, accepted if strategy != OFF else [0] * 16, 0.01)
        seconds.append((process_time() - began) / len(some))
    assert sorted(seconds)[len(seconds) // 2] < 300e-6


@pytest.mark.parametrize("batch", [1, 4, 16, 64])
def test_a_drafter_that_turned_good_with_new_weights_is_noticed_soon(batch: int) -> None:
    """It was bad under three versions of the weights before."""
    ratios = []
    for seed in range(4):
        tuner, machine = make(seed), Machine(seed, BAD)
        for version in range(3):
            efficiency(tuner, machine, [Context(batch, drafter_version=version)] * 200)
        machine.accepted = np.array(GOOD)
        ratios.append(efficiency(tuner, machine, [Context(batch, drafter_version=3)] * 300))
    assert mean(ratios) >= 0.95


def test_arms_that_are_as_good_do_not_take_turns_for_ever() -> None:
    """Two chains, of which one is a little faster: once it is known, it is kept, and trials are few."""
    tuner, machine = make(2), Machine(2, hiccups=0.0)
    machine.costs = lambda arm, context: TABLE.seconds(arm, context) * {K3: 1.0, K1: 0.93}.get(arm, 1.0)
    efficiency(tuner, machine, [Context(16)] * 600)
    chosen = [machine.step(tuner, Context(16)) for _ in range(800)]
    changes = sum(one != other for one, other in pairwise(chosen))
    assert changes < 40
    assert efficiency(tuner, machine, [Context(16)] * 400) > 0.98


def test_a_state_of_an_earlier_version_is_read() -> None:
    """It has another correction of step times, two memories of acceptance, and says when each drafter was asked last."""
    tuner = make(1)
    state = tuner.state()
    old = {
        "versions": [3, 2],
        "exploration": {"rng": state["exploration"]["rng"], "credit": -1.5, "allowance": 2.0, "tokens": 90.0, "idle": {"eagle": 7}},
        "acceptance": {"eagle 1 0": [[[9.0] * 5, [1.0] * 5], [[1.0] * 5, [0.0] * 5]]},
        "correction": {"arms": ["off"], "buckets": [], "mean": [0.0, 0.0], "covariance": [[16.0, 0.0], [0.0, 0.02]]},
    }
    tuner.load_state(json.loads(json.dumps(old)))
    assert tuner.expected(K5) > 3
    assert tuner.select(Context(1, target_version=3, drafter_version=2)) == OFF
