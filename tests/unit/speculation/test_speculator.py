"""The speculator with a simulated batch: who drafts for whom, step by step."""

import json
import random

import pytest
from speculator_cases import CHAIN, COSTS, LIMIT, NGRAM, SHORT, TREE, Request, admitted, make, step

from engine.speculation.speculator import LOOKS, MOST_PATIENT, PATIENCE, Speculator, StepPlan
from engine.speculation.strategy import OFF
from engine.speculation.tuner.cost_table import CostTable, Grid


def test_a_request_goes_on_as_its_sibling_did_where_the_match_is_strong_and_with_the_learned_drafter_elsewhere() -> None:
    """One sibling's word is 1/2 of a token, 1/4 of a second one, and too little of a third one."""
    speculator = make(CHAIN)
    batch = admitted(speculator, 3, groups=2)
    batch[0].written.extend([4, 5, 6, 7, 8, 9, 10, 11])
    batch[2].written.extend([4, 5, 6, 7])
    plan = speculator.plan(batch, learned=True)
    assert plan.given == [None, None, (8, 9)]
    assert plan.shape == plan.strategy == CHAIN


def test_a_suffix_draft_must_promise_as_much_as_the_learned_drafter_brings() -> None:
    """3/4 of a token are promised; the learned drafter brings 0 or about 3."""
    for rate, preferred in ((0.0, True), (0.9, False)):
        speculator, rng = make(CHAIN), random.Random(0)
        batch = admitted(speculator, 2)
        for _ in range(100):
            step(speculator, batch, rate, rng)
        batch[0].written.extend([4, 5, 6, 7, 8, 9, 10, 11])
        batch[1].written.extend([4, 5, 6, 7])
        plans = [speculator.plan(batch, learned=True) for _ in range(MOST_PATIENT + 1)]
        assert any(plan.given is not None for plan in plans) == preferred


def test_after_a_look_that_found_nothing_the_store_is_left_alone_for_some_steps() -> None:
    speculator = make(CHAIN)
    batch = admitted(speculator, 2)
    assert speculator.plan(batch, learned=True).given is None
    batch[0].written.extend([4, 5, 6, 7, 8, 9, 10, 11])
    batch[1].written.extend([4, 5, 6, 7])
    found = [speculator.plan(batch, learned=True).given for _ in range(PATIENCE + 2)]
    assert found[:PATIENCE] == [None] * PATIENCE
    assert found[PATIENCE] == [None, (8, 9)]


def test_suffix_drafts_that_are_wrong_are_not_drafted_for_long() -> None:
    """The sibling always goes on otherwise after three equal tokens."""
    speculator, rng = make(NGRAM), random.Random(0)
    batch = admitted(speculator, 2)
    drafted = []
    for token in range(0, 6000, 4):
        batch[0].written.extend(range(token, token + 4))
        batch[1].written.extend(range(token, token + 3))
        drafted.append(sum(bool(chain) for chain in step(speculator, batch, 0.0, rng).given or ()))
        batch[1].written.extend([10_000 + token])
    assert all(drafted[:5])
    assert 0 < sum(drafted[20:]) < 0.2 * len(drafted[20:]), "it tries again now and then"


def test_looks_that_find_nothing_become_rare_and_one_that_finds_something_makes_them_frequent_again() -> None:
    """Shown by the store, which has a draft only at the steps that are asked about."""
    speculator = make(CHAIN)
    batch = admitted(speculator, 2)
    looks = [1 + PATIENCE, 2 * (1 + PATIENCE) + PATIENCE, 2 * (1 + PATIENCE) + PATIENCE + 1 + MOST_PATIENT]
    for _ in range(looks[-1]):
        assert speculator.plan(batch[1:], learned=True).given is None
    batch[0].written.extend([4, 5, 6, 7, 8, 9, 10, 11])
    batch[1].written.extend([4, 5, 6, 7])
    found = [speculator.plan(batch[1:], learned=True).given is not None for _ in range(40)]
    assert found == [True] * 40
    batch[1].written.extend([70, 71, 72])
    assert speculator.plan(batch[1:], learned=True).given is None
    batch[1].written.extend([4, 5, 6, 7])
    found = [speculator.plan(batch[1:], learned=True).given is not None for _ in range(PATIENCE + 1)]
    assert found == [False] * PATIENCE + [True]


def test_beside_the_learned_drafter_a_large_batch_looks_up_a_part_of_itself() -> None:
    for strategy, drafted in ((CHAIN, LOOKS), (NGRAM, 40)):
        speculator = make(strategy)
        batch = admitted(speculator, 80, groups=40)
        for request in batch:
            request.written.extend([4, 5, 6, 7, 8, 9] if request.id < 40 else [4, 5, 6])
        plan = speculator.plan(batch[40:], learned=True)
        assert sum(bool(chain) for chain in plan.given or ()) == drafted


def test_ngram_drafts_are_as_long_as_they_pay_and_a_step_in_which_none_does_is_plain() -> None:
    """A sibling's word is 1/2, 1/4 and 1/8 of three tokens; the gate leaves out the third. With the drafts of a request in two, a token
    of each costs 0.05 and 0.1 units in steps of one unit, or ten times that."""
    for price, drafted in ((1.0, 2), (3.0, 1), (10.0, 0)):
        costs = CostTable(Grid((2,), (1, 2), (1,), [[[1.0], [1.0 + 0.1 * price]]]), Grid((1,), (1,), (1,), [[[0.0]]]))
        speculator = make(NGRAM, tuner="goodput", costs=costs)
        batch = admitted(speculator, 2)
        batch[0].written.extend([4, 5, 6, 7, 8, 9, 10, 11])
        batch[1].written.extend([4, 5, 6, 7])
        plan = speculator.plan(batch, learned=False)
        assert plan.strategy == (NGRAM if drafted else OFF)
        assert plan.given == ([(), (8, 9)[:drafted]] if drafted else None)


def test_after_steps_in_which_no_ngram_draft_paid_the_store_rests_until_batch_sizes_change() -> None:
    speculator = make(NGRAM, threshold=100)
    batch = admitted(speculator, 100)

    def asked(requests: int, steps: int) -> list[int]:
        return [step for step in range(steps) if "ngram" in speculator.plan(batch[:requests], learned=False).context.drafters]

    assert asked(100, 60) == [0, 2, 5, 10, 19, 36, 53]
    assert asked(12, 12) == [0, 2, 5, 9]
    assert asked(3, 6) == [0, 2, 4]


@pytest.mark.parametrize("learned", [True, False])
def test_without_a_drafter_there_are_suffix_drafts_or_none(learned: bool) -> None:
    speculator = make(NGRAM)
    batch = admitted(speculator, 2)
    batch[0].written.extend([4, 5, 6, 7, 8, 9, 10, 11])
    batch[1].written.extend([4, 5, 6, 7])
    plan = speculator.plan(batch, learned)
    assert (plan.shape, plan.given) == (None, [(), (8, 9)])
    only_learned = make(CHAIN, suffix=False)
    assert only_learned.plan(admitted(only_learned, 2), learned).strategy == (CHAIN if learned else OFF)
    assert make(CHAIN).plan(batch[:0] or [Request(7)], False).strategy == OFF


@pytest.mark.parametrize(("batch_size", "suffix"), [(1, False), (3, True), (12, True), (12, False)])
def test_a_broken_drafter_is_off_within_twenty_steps_and_back_with_a_good_one(batch_size: int, suffix: bool) -> None:
    speculator, rng = make(CHAIN, NGRAM, tuner="goodput", suffix=suffix), random.Random(1)
    batch = admitted(speculator, batch_size, groups=batch_size)

    def run(rate: float, steps: int) -> list[StepPlan]:
        return [step(speculator, batch, rate, rng) for _ in range(steps)]

    def learned_steps(plans: list[StepPlan]) -> int:
        return sum(plan.shape is not None for plan in plans)

    assert learned_steps(run(0.9, 400)) > 300
    speculator.loaded("target", 1)
    assert learned_steps(run(0.85, 60)) > 40
    assert speculator.take_alarms() == []
    speculator.loaded("drafter", 5)
    assert 0 < learned_steps(run(0.0, 200)) <= 20
    after = run(0.0, 100)
    assert learned_steps(after) == 0
    assert all(plan.context.drafters <= ({"none", "ngram"} if suffix else {"none"}) for plan in after)
    (alarm,) = speculator.take_alarms()
    assert alarm.code == "acceptance_collapsed"
    assert "drafter 5" in alarm.message
    assert speculator.take_alarms() == []
    speculator.loaded("drafter", 6)
    assert learned_steps(run(0.9, 200)) > 100
    assert [notice.code for notice in speculator.take_alarms()] == ["acceptance_recovered"]


def evaluate(speculator: Speculator, rate: float, rng: random.Random, steps: int = 100) -> int:
    """In how many steps of an evaluation the learned drafter drafts."""
    evaluating = speculator.forgetful()
    evaluating.begin(LIMIT)
    requests = admitted(evaluating, 4)
    drafted = sum(step(evaluating, requests, rate, rng).shape is not None for _ in range(steps))
    for request in requests:
        evaluating.finish(request)
    return drafted


def test_what_is_to_be_forgotten_is_but_an_alarm_is_not() -> None:
    """A drafter breaks in an evaluation, which decides by what rollouts have taught, and by the acceptance of the one before."""
    speculator, rng = make(CHAIN, NGRAM, tuner="goodput"), random.Random(1)
    batch = admitted(speculator, 4)
    for _ in range(400):
        step(speculator, batch, 0.9, rng)
    assert evaluate(speculator, 0.8, rng) > 80
    speculator.tuner.take_arms()
    speculator.loaded("drafter", 5)
    of_both = {"evaluation_watchdog": None, "texts": None}
    learnt = json.dumps(speculator.state() | of_both)
    assert 0 < evaluate(speculator, 0.0, rng) <= 20, "until the watchdog has noticed"
    assert json.dumps(speculator.state() | of_both) == learnt
    assert speculator.tuner.take_arms() == []
    (alarm,) = speculator.take_alarms()
    assert alarm.code == "acceptance_collapsed"
    assert alarm.message.startswith("In evaluations with target 0 and drafter 5")
    restored = make(CHAIN, NGRAM, tuner="goodput")
    restored.load_state(json.loads(json.dumps(speculator.state())))
    for each in (speculator, restored):
        assert evaluate(each, 0.9, rng) == 0, "it stays off until other weights come"
        each.begin(LIMIT)
        assert "eagle" in each.plan(admitted(each, 4), learned=True).context.drafters, "rollouts judge for themselves"


def test_a_drafter_is_not_judged_by_prompts_of_another_kind() -> None:
    """Validation prompts of which a quarter of what rollouts accept is accepted, as it always was."""
    speculator, rng = make(CHAIN, tuner="fixed", suffix=False), random.Random(1)
    for version in range(1, 5):
        batch = admitted(speculator, 4)
        for _ in range(200):
            step(speculator, batch, 0.9, rng)
        speculator.loaded("drafter", version)
        assert evaluate(speculator, 0.2, rng) == 100
    assert speculator.take_alarms() == []


def test_speculation_goes_by_the_number_of_requests_with_hysteresis() -> None:
    """On at 8 or fewer, off above 10."""
    speculator = make(CHAIN, threshold=8, hysteresis=0.25)
    batch = admitted(speculator, 20)
    counts = [20, 9, 8, 9, 10, 11, 10, 9, 8, 10, 3, 20]
    on = [speculator.plan(batch[:count], learned=True).shape is not None for count in counts]
    assert on == [False, False, True, True, True, False, False, False, True, True, True, False]
    plan = speculator.plan(batch, learned=True)
    assert (plan.strategy, plan.context.drafters, plan.context.batch) == (OFF, {"none"}, 20)


def test_who_had_to_draft_is_asked_again_after_the_next_load() -> None:
    """Rollouts of 12 steps, shorter than a trial, in which drafts cost more than they bring: plain decoding is not locked out."""
    speculator, rng = make(CHAIN, tuner="goodput", costs=COSTS, suffix=False), random.Random(0)
    batch = admitted(speculator, 3)
    for _ in range(200):
        step(speculator, batch, 0.9, rng, COSTS)
    drafted = []
    for version in range(1, 41):
        speculator.loaded("target", version)
        drafted.append(sum(step(speculator, batch, 0.5, rng, COSTS).shape is not None for _ in range(12)))
    assert drafted[0] == 12, "it was in use, and shows whether it still works"
    assert sum(drafted[-20:]) < 0.25 * 20 * 12


def test_what_was_learnt_survives_a_checkpoint() -> None:
    """With new prompts both decide alike."""
    speculator, restored, fresh = (make(CHAIN, TREE, NGRAM, tuner="goodput") for _ in range(3))
    batch, rng = admitted(speculator, 6, groups=3), random.Random(3)
    for token in range(0, 400, 4):
        batch[0].written.extend(range(token, token + 4))
        batch[3].written.extend(range(token, token + 3))
        step(speculator, batch, 0.8, rng)
    step(speculator, batch[:2], 0.8, rng)
    speculator.loaded("target", 3)
    step(speculator, batch, 0.8, rng)
    speculator.finish(batch[5])
    state = json.loads(json.dumps(speculator.state()))
    assert all(fresh.state()[part] != learnt for part, learnt in state.items())
    restored.loaded("target", 3)
    restored.load_state(state)
    assert json.loads(json.dumps(restored.state())) == state
    courses = []
    for each in (speculator, restored, fresh):
        each.begin(LIMIT)
        rng, requests = random.Random(4), admitted(each, 4, prompt=(7, 8, 9))
        courses.append([step(each, requests, 0.3, rng) for _ in range(100)])
    assert courses[0] == courses[1] != courses[2]


@pytest.mark.parametrize("before", ["beg", "goodput", "fixed"])
@pytest.mark.parametrize("now", ["beg", "goodput", "fixed"])
def test_a_resumed_run_may_have_another_tuner_and_other_strategies(before: str, now: str) -> None:
    speculator, resumed = make(CHAIN, SHORT, NGRAM, tuner=before), make(TREE, tuner=now)
    batch, rng = admitted(speculator, 4), random.Random(3)
    for _ in range(40):
        step(speculator, batch, 0.8, rng)
    state = json.loads(json.dumps(speculator.state()))
    resumed.load_state(state)
    assert resumed.state()["lengths"] == state["lengths"]
    assert step(resumed, admitted(resumed, 4, prompt=(7, 8, 9)), 0.8, rng).strategy in (OFF, TREE)


def test_once_the_drafter_has_caught_up_nobody_believes_it_behind() -> None:
    speculator = make(CHAIN)
    batch = admitted(speculator, 2, prompt=tuple(range(200)))
    assert speculator.plan(batch, learned=True).context.behind > 150
    step(speculator, batch, 1.0, random.Random(0))
    for request in batch:
        request.drafted = request.length - 5
    assert speculator.plan(batch, learned=True).context.behind < 10
