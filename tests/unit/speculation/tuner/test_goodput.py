"""The tuner against a simulated machine with published step times, and against the best arm in hindsight."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from time import process_time

import numpy as np
import pytest
from simulated_machine import ARMS, BAD, BEST, BETTER, GOOD, K1, K3, K4, K5, TABLE, Machine

from engine.config import GoodputConfig
from engine.events import ArmStatistics
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid
from engine.speculation.tuner.goodput import GoodputTuner


def make(seed: int = 0, costs: CostTable | None = TABLE, arms: Sequence[Strategy] = ARMS, **config: float) -> GoodputTuner:
    return GoodputTuner(arms, GoodputConfig.model_validate(config), random.Random(seed), costs)


def believed_best(tuner: GoodputTuner, context: Context) -> Strategy:
    """The arm of highest mean value, without a trial."""
    score, *_ = tuner._belief(context)
    return tuner._arms[max(tuner._eligible(context), key=score.__getitem__)]


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
    assert believed_best(tuner, Context(batch)) == BEST[batch]
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
    """Drafting costs a third more than the table says, so that K1 is best at batch 1 as well."""
    tuner, machine = make(1), Machine(1, noise=0.02, hiccups=0.0)
    factors = {OFF: 1.0, K1: 1.0, K3: 1.3, K5: 1.35}
    machine.costs = lambda arm, context: TABLE.seconds(arm, context) * factors[arm]
    assert machine.best(Context(1)) == K1
    efficiency(tuner, machine, [Context(1)] * 300)
    assert believed_best(tuner, Context(1)) == K1
    ratios = [tuner.seconds(arm, Context(1)) / TABLE.seconds(arm, Context(1)) for arm in (K1, K3)]
    assert ratios[1] / ratios[0] == pytest.approx(1.3, rel=0.1)
    assert tuner.predicted(K3, Context(1)) == TABLE.seconds(K3, Context(1))


def test_what_was_learnt_at_one_batch_size_holds_at_another_at_once() -> None:
    tuner, machine = make(), Machine(0, accepted=(0.9, 0.85, 0.8, 0.75, 0.7))
    assert machine.best(Context(16)) == K5
    assert believed_best(tuner, Context(16)) != K5
    for _ in range(200):
        machine.step(tuner, Context(1))
    assert believed_best(tuner, Context(16)) == tuner.select(Context(16)) == K5
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


def test_a_drafter_that_was_given_up_comes_back_where_each_trial_is_dear() -> None:
    """On a CPU checking drafts of many requests takes nearly as long as decoding them: a trial loses two steps. Within 400 steps."""
    table = CostTable(Grid((1,), (1, 3, 5), (0,), [[[0.01], [0.02], [0.028]]]), Grid((1,), (1,), (0,), [[[0.0]]]))
    later = []
    for seed in range(10):
        tuner, machine, context = make(seed, table, [Strategy("eagle", 2, 1, 2), K4]), Machine(seed), Context(8)
        machine.costs, machine.best = table.seconds, lambda context: K4  # type: ignore[method-assign]  # noqa: ARG005
        for version, accepted in enumerate((BETTER, BAD, BETTER)):
            machine.accepted = np.array(accepted)
            context = replace(context, drafter_version=version)
            efficiency(tuner, machine, [context] * 400)
        later.append(efficiency(tuner, machine, [context] * 200))
    assert min(later) >= 0.95


def test_a_drafter_that_was_given_up_is_not_asked_for_new_weights_alone() -> None:
    tuner, machine, context = make(arms=[K4]), Machine(0, BAD), Context(8)
    machine.costs = lambda strategy, _: {OFF: 0.01, K4: 0.03}[strategy]
    asked = []
    for version in range(20):
        context = replace(context, target_version=version, drafter_version=version)
        asked.append(sum(machine.step(tuner, context) == K4 for _ in range(100)))
    assert sum(asked[5:]) == 0


def test_a_tree_that_was_given_up_comes_back_though_a_chain_is_tried_before_it() -> None:
    chain, tree, later = Strategy("eagle", 2, 1, 2), Strategy("eagle", 3, 2, 5), []
    for seed in range(4):
        tuner, machine, context = make(seed, None, [chain, tree]), Machine(seed), Context(8)
        machine.costs = lambda strategy, _: {OFF: 0.01, chain: 0.024, tree: 0.026}[strategy]
        machine.best = lambda context: tree  # type: ignore[method-assign]  # noqa: ARG005
        for version, accepted in enumerate((BAD, BETTER)):
            machine.accepted = np.array(accepted)
            context = replace(context, drafter_version=version)
            efficiency(tuner, machine, [context] * 400)
        later.append(efficiency(tuner, machine, [context] * 200))
    assert mean(later) >= 0.95, "with the chain alone it would be 0.86"


@pytest.mark.parametrize("batch", [1, 64])
def test_it_also_finds_out_without_being_told_of_new_weights(batch: int) -> None:
    tuner, machine, context = make(2), Machine(2), Context(batch)
    efficiency(tuner, machine, [context] * 300)
    machine.accepted = np.array(BAD)
    efficiency(tuner, machine, [context] * 200)
    assert believed_best(tuner, context) == OFF
    assert efficiency(tuner, machine, [context] * 600) >= 0.98, "it seldom asks the drafter"
    machine.accepted = np.array(GOOD)
    efficiency(tuner, machine, [context] * 600)
    assert believed_best(tuner, context) == BEST[batch]


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


@pytest.mark.parametrize("batch", [1, 16])
def test_ngrams_that_find_nothing_are_seldom_asked(batch: int) -> None:
    """Each time they are costs a plain step."""
    suffix = Strategy("ngram", 5, 1, 5)
    tuner, machine, context = make(arms=[*ARMS, suffix]), Machine(0), Context(batch)
    asked = 0
    for _ in range(600):
        strategy = tuner.select(context)
        asked += strategy == suffix
        used = OFF if strategy == suffix else strategy
        draws = machine.rng.random((batch, 1))
        tuner.record(used, context, (draws < machine.accepted[: used.verify]).sum(1).tolist(), TABLE.seconds(used, context))
    assert 1 <= asked <= 15


def test_plain_steps_in_which_no_ngram_could_be_asked_teach_nothing_of_them() -> None:
    """As above the threshold when the next rollout begins, or while the store rests."""
    suffix = Strategy("ngram", 5, 1, 5)
    tuner, machine, context = make(arms=[suffix]), Machine(0), Context(40)
    while machine.steps < 200 or machine.step(tuner, context) != suffix:
        machine.step(tuner, context)
    known, resting = tuner.expected(suffix), replace(context, drafters=frozenset({"none"}))
    for _ in range(200):
        tuner.record(OFF, resting, [0] * 40, TABLE.seconds(OFF, resting))
    assert known > 1
    assert tuner.expected(suffix) == pytest.approx(known, rel=0.1)


def test_ngram_drafts_are_tried_whatever_they_seem_to_cost() -> None:
    """They end themselves where they do not pay."""
    suffix = Strategy("ngram", 5, 1, 5)
    table = CostTable(Grid((1,), (1, 6), (0,), [[[0.01], [0.05]]]), Grid((1,), (1,), (0,), [[[0.0]]]))
    tuner, machine = make(costs=table, arms=[suffix]), Machine(0, accepted=(0.0,) * 5)
    machine.costs = table.seconds
    assert suffix in {machine.step(tuner, Context(1)) for _ in range(200)}


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
        assert believed_best(tuner, context).drafter in drafters


class Unmoved(random.Random):
    """Never explores; counts how often it was asked."""

    asked = 0

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:  # noqa: ARG002
        self.asked += 1
        return 0.0


def test_a_decision_holds_for_the_interval_at_one_bucket_of_batch_sizes() -> None:
    """A new choice is checked after three steps, and from then on every five; steps of other batch sizes in between change nothing."""
    rng = Unmoved()
    tuner = GoodputTuner(ARMS, GoodputConfig(interval=5), rng, TABLE)
    decided, chosen = [], set()
    for step in range(40):
        for context in (Context(4 + step % 4), Context(64)):
            before = rng.asked
            strategy = tuner.select(context)
            tuner.record(strategy, context, [2] * context.batch, TABLE.seconds(strategy, context))
            if context.batch < 64:
                chosen.add(strategy)
                decided += [step] * (rng.asked > before)
    assert chosen == {K3}
    assert decided == [3, 8, 13, 18, 23, 28, 33, 38]


def test_asking_what_it_believes_changes_nothing() -> None:
    asked, quiet = make(5), make(5)
    for step in range(60):
        context = Context(1 + step % 20)
        strategy = quiet.select(context)
        asked.expected(K3), asked.seconds(K3, context)
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


def test_a_state_of_an_earlier_version_can_be_loaded() -> None:
    """It had what was left to lose by trials, and how long each drafter was not asked."""
    tuner, resumed = make(6), make(99)
    machine = Machine(0)
    for _ in range(100):
        machine.step(tuner, Context(4))
    state = json.loads(json.dumps(tuner.state()))
    state["exploration"] |= {"credit": 1.5, "allowance": 2.0, "tokens": 300.0, "idle": {"none": 0, "eagle": 7}}
    resumed.load_state(state)
    assert resumed.state()["exploration"]["rng"] == tuner.state()["exploration"]["rng"]
    assert resumed.expected(K3) == tuner.expected(K3)


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


def test_what_drafting_costs_once_must_pay_until_the_end() -> None:
    """The last step goes beyond a response's end, and a drafter that is behind catches up first: 0.1 ms for 4 tokens of each request."""
    costs = replace(TABLE, draft=Grid((1,), (1, 2), (0,), [[[0.0001], [0.0002]]]))
    tuner, machine = GoodputTuner(ARMS, GoodputConfig(), random.Random(0), costs), Machine(0)
    machine.costs = costs.seconds
    for _ in range(100):
        machine.step(tuner, Context(8))
    assert believed_best(tuner, Context(8, behind=3)) == K3
    assert believed_best(tuner, Context(8, behind=3, horizon=2.0)) == OFF
    assert believed_best(tuner, Context(8, behind=800, horizon=8.0)) == OFF, "it would take 20 ms, three plain steps"
    assert believed_best(tuner, Context(8, behind=800, horizon=2000.0)) == K3


@pytest.mark.parametrize(("horizon", "tried"), [(16.0, False), (200.0, True)])
def test_a_trial_must_not_lose_much_of_what_is_left(horizon: float, tried: bool) -> None:
    """To take in 800 tokens of each request is worth about three plain steps."""
    costs = replace(TABLE, draft=Grid((1,), (1, 2), (0,), [[[0.0001], [0.0002]]]))
    context = Context(64, behind=800, horizon=horizon)
    chosen = {make(seed, costs).select(context) for seed in range(20)}
    assert (chosen != {OFF}) == tried
