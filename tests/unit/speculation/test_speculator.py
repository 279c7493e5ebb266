"""The speculator with a simulated batch: who drafts for whom, step by step."""

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from engine.config import SpeculationConfig
from engine.speculation.cost import CostTable, Grid
from engine.speculation.speculator import PATIENCE, Plan, Speculator
from engine.speculation.strategy import OFF, Strategy

CHAIN, SHORT, TREE = Strategy("eagle", 4, 1, 4), Strategy("eagle", 2, 1, 2), Strategy("eagle", 3, 2, 5)
NGRAM = Strategy("ngram", 6, 1, 6)
LIMIT = 1000


@dataclass
class Request:
    """A running request, ``length`` known tokens of which were ``generated``."""

    id: int
    group: int = 0
    length: int = 10
    generated: int = 5


def make(*strategies: Strategy, tuner: str = "fixed", costs: CostTable | None = None, suffix: bool = True, **changes: Any) -> Speculator:
    shapes = [{"drafter": s.drafter, "depth": s.depth, "top_k": s.top_k, "verify": s.verify} for s in strategies]
    given = {"strategies": shapes, "tuner": {"name": tuner}, "suffix": {"enabled": suffix}, "tail_requests": 0}
    speculator = Speculator(SpeculationConfig.model_validate(given | changes), 0, costs)
    speculator.begin(LIMIT)
    return speculator


def admitted(speculator: Speculator, count: int, groups: int = 1, prompt: tuple[int, ...] = (1, 2, 3)) -> list[Request]:
    batch = [Request(i, i % groups, len(prompt), 0) for i in range(count)]
    for request in batch:
        speculator.admit(request.id, (*prompt, 1000 + request.group))
    return batch


def step(speculator: Speculator, batch: list[Request], rate: float, rng: random.Random, seconds: float = 0.01) -> Plan:
    """Decodes one step in which each learned draft token is right at ``rate``, and no suffix draft is."""
    plan = speculator.plan(batch, learned=True)
    verify = plan.shape.verify if plan.shape else 0
    given = plan.given or [None] * len(batch)
    limits = plan.limits or [verify] * len(batch)
    accepted = []
    for chain, limit in zip(given, limits, strict=True):
        drafts = 0
        while chain is None and drafts < min(limit, verify) and rng.random() < rate:
            drafts += 1
        accepted.append(drafts)
    for request, drafts in zip(batch, accepted, strict=True):
        request.length += drafts + 1
        request.generated += drafts + 1
    speculator.record(plan, accepted, [drafts + 1 for drafts in accepted], seconds)
    return plan


def test_a_request_goes_on_as_its_sibling_did_where_the_match_is_strong_and_with_the_learned_drafter_elsewhere() -> None:
    speculator = make(CHAIN)
    batch = admitted(speculator, 3, groups=2)
    speculator.extend(0, [4, 5, 6, 7, 8, 9, 10, 11])
    speculator.extend(2, [4, 5, 6, 7])
    plan = speculator.plan(batch, learned=True)
    assert plan.given == [None, None, (8, 9, 10, 11)]
    assert plan.shape == plan.strategy == CHAIN
    assert plan.limits is None


def test_a_suffix_draft_must_promise_as_much_as_the_learned_drafter_brings() -> None:
    """One sibling's word counts as 1/2 a token, the second token as 1/4, and so on: 15/16 in all for four."""
    for rate, preferred in ((0.0, True), (0.9, False)):
        speculator, rng = make(CHAIN), random.Random(0)
        batch = admitted(speculator, 2)
        for _ in range(100):
            step(speculator, batch, rate, rng)
        speculator.extend(0, [4, 5, 6, 7, 8, 9, 10, 11])
        speculator.extend(1, [4, 5, 6, 7])
        plans = [speculator.plan(batch, learned=True) for _ in range(PATIENCE + 1)]
        assert any(plan.given is not None for plan in plans) == preferred


def test_after_a_look_that_found_nothing_the_store_is_left_alone_for_some_steps() -> None:
    speculator = make(CHAIN)
    batch = admitted(speculator, 2)
    assert speculator.plan(batch, learned=True).given is None
    speculator.extend(0, [4, 5, 6, 7, 8, 9, 10, 11])
    speculator.extend(1, [4, 5, 6, 7])
    found = [speculator.plan(batch, learned=True).given for _ in range(PATIENCE + 2)]
    assert found[:PATIENCE] == [None] * PATIENCE
    assert found[PATIENCE] == [None, (8, 9, 10, 11)]


def test_suffix_drafts_that_are_wrong_are_not_drafted_for_long() -> None:
    speculator, rng = make(NGRAM), random.Random(0)
    batch = admitted(speculator, 2)
    drafted = []
    for token in range(0, 400, 4):
        speculator.extend(0, range(token, token + 4))
        speculator.extend(1, range(token, token + 2))
        drafted.append(sum(bool(chain) for chain in step(speculator, batch, 0.0, rng).given or ()))
    assert sum(drafted[:10]) > 3
    assert sum(drafted[-50:]) < 15


@pytest.mark.parametrize("learned", [True, False])
def test_without_a_drafter_there_are_suffix_drafts_or_none(learned: bool) -> None:
    speculator = make(NGRAM)
    batch = admitted(speculator, 2)
    speculator.extend(0, [4, 5, 6, 7, 8, 9, 10, 11])
    speculator.extend(1, [4, 5, 6, 7])
    plan = speculator.plan(batch, learned)
    assert (plan.shape, plan.given) == (None, [(), (8, 9, 10, 11)])
    only_learned = make(CHAIN, suffix=False)
    assert only_learned.plan(admitted(only_learned, 2), learned).strategy == (CHAIN if learned else OFF)
    assert make(CHAIN).plan(batch[:0] or [Request(7)], False).strategy == OFF


@pytest.mark.parametrize(("batch_size", "suffix"), [(1, False), (3, True), (12, True), (12, False)])
def test_a_broken_drafter_is_off_within_twenty_steps_and_back_with_a_good_one(batch_size: int, suffix: bool) -> None:
    speculator, rng = make(CHAIN, NGRAM, tuner="goodput", suffix=suffix), random.Random(1)
    batch = admitted(speculator, batch_size, groups=batch_size)

    def run(rate: float, steps: int) -> list[Plan]:
        return [step(speculator, batch, rate, rng, 0.01) for _ in range(steps)]

    def learned_steps(plans: list[Plan]) -> int:
        return sum(plan.shape is not None for plan in plans)

    assert learned_steps(run(0.9, 400)) > 300
    speculator.loaded("target", 1)
    assert learned_steps(run(0.85, 60)) > 40
    assert speculator.take_alarms() == []
    speculator.loaded("drafter", 5)
    assert 0 < learned_steps(run(0.0, 200)) <= 20
    after = run(0.0, 100)
    assert learned_steps(after) == 0
    assert all(plan.context.drafters == ({"none", "ngram"} if suffix else {"none"}) for plan in after)
    (alarm,) = speculator.take_alarms()
    assert alarm.code == "acceptance_collapsed"
    assert "drafter 5" in alarm.message
    assert speculator.take_alarms() == []
    speculator.loaded("drafter", 6)
    assert learned_steps(run(0.9, 200)) > 100
    assert [notice.code for notice in speculator.take_alarms()] == ["acceptance_recovered"]


def test_speculation_goes_by_the_number_of_requests_with_hysteresis() -> None:
    """On at 8 or fewer, off above 10."""
    speculator = make(CHAIN, threshold=8, hysteresis=0.25)
    batch = admitted(speculator, 20)
    counts = [20, 9, 8, 9, 10, 11, 10, 9, 8, 10, 3, 20]
    on = [speculator.plan(batch[:count], learned=True).shape is not None for count in counts]
    assert on == [False, False, True, True, True, False, False, False, True, True, True, False]
    plan = speculator.plan(batch, learned=True)
    assert (plan.strategy, plan.context.drafters, plan.context.batch) == (OFF, {"none"}, 20)


# A step takes a unit, and half a unit for each request's each drafted token.
COSTS = CostTable(Grid((1, 64), (1, 65), (1,), [[[1.0], [33.0]], [[1.0], [2049.0]]]), Grid((1,), (1,), (1,), [[[0.0]]]))


def test_in_the_tail_the_request_predicted_to_run_longest_gets_the_deeper_draft() -> None:
    speculator, rng = make(CHAIN, SHORT, tuner="goodput", costs=COSTS, suffix=False, tail_requests=3), random.Random(2)
    batch = admitted(speculator, 8, groups=4)
    for _ in range(300):
        plan = step(speculator, batch, 0.95, rng, 0.01)
        assert plan.strategy is not None, "eight requests are no tail"
        for request in batch:
            request.generated = request.length = 5
    for finished, length in ((4, 20), (5, 900), (6, 18), (7, 20)):
        batch[finished].generated = length
        speculator.finish(batch[finished])
    tail = batch[:3]
    plan = speculator.plan(tail, learned=True)
    assert plan.strategy is None, "what differs by request teaches nothing about a strategy"
    assert plan.shape == CHAIN
    drafts = [
        0 if chain == () else limit for chain, limit in zip(plan.given or (None,) * 3, plan.limits or (CHAIN.verify,) * 3, strict=True)
    ]
    assert drafts[1] == CHAIN.verify > max(drafts[0], drafts[2])
    before = speculator.tuner.state()
    speculator.record(plan, drafts, [n + 1 for n in drafts], 0.01)
    assert speculator.tuner.state() == before


def test_what_was_learnt_survives_a_checkpoint() -> None:
    def fresh() -> Speculator:
        speculator = make(CHAIN, TREE, NGRAM, tuner="goodput")
        return speculator

    speculator, rng = fresh(), random.Random(3)
    batch = admitted(speculator, 6, groups=3)
    for token in range(0, 600, 4):
        speculator.extend(0, range(token, token + 4))
        speculator.extend(3, range(token, token + 2))
        step(speculator, batch, 0.8, rng)
    speculator.loaded("target", 3)
    step(speculator, batch, 0.8, rng)
    speculator.finish(batch.pop())
    state = json.loads(json.dumps(speculator.state()))
    restored = fresh()
    restored.load_state(state)
    assert json.loads(json.dumps(restored.state())) == state
    assert {name for name, part in fresh().state().items() if part != state[name]} == {"tuner", "watchdog", "lengths", "gate"}
    copies = admitted(restored, 6, groups=3)
    for request in batch:
        speculator.finish(request)
    speculator.begin(LIMIT)
    restored.begin(LIMIT)
    for request in copies:
        restored.admit(request.id, (1, 2, 3, 1000 + request.group))
