"""Decides every decode step: whether to speculate, who drafts for which request, and in what shape."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.config import DrafterName, SpeculationConfig
from engine.speculation.acceptance_watchdog import Notice, Watchdog
from engine.speculation.catch_up import FAR, caught_up
from engine.speculation.counterfactual import Counterfactual, DecodeSeconds
from engine.speculation.drafter_selection import DrafterSelector
from engine.speculation.elastic_switch import ElasticSwitch
from engine.speculation.ngram.draft_length import DraftLengthChooser
from engine.speculation.ngram.suffix_store import Draft, SuffixStore
from engine.speculation.remaining_length import RemainingLengthPredictor
from engine.speculation.step_pace import StepPaces
from engine.speculation.strategy import OFF, Context, RunningRequest, Strategy
from engine.speculation.tuner.cost_table import CostTable, assumed_seconds
from engine.speculation.tuner.factory import build_tuner
from engine.speculation.tuner.goodput import GoodputTuner

PATIENCE, MOST_PATIENT = 8, 32
"""Steps without a look into the suffix store after a look that found nothing worth drafting; twice as many after each more, at most
so many."""
EMPTY_DRAFT = Draft()
LOOKS = 16
"""Looks into the suffix store at one step, at most, beside the learned drafter: in a large batch that has what is not looked up."""
PAUSE, LONGEST_PAUSE = 1, 16
"""Steps without n-grams after a step in which no suffix draft paid; twice as many after each more, at most so many, and fewer in a
small batch, which is soon looked up."""
FRESH = 4
"""Decode steps for which a context is good, if the batch is as large and the drafters are the same: lengths change slowly."""
MEMORY = 256
"""Requests drafted for after which an observation of a shape's acceptance counts 1/e."""


@dataclass(frozen=True)
class StepPlan:
    """A decode step: the learned drafter drafts in ``shape`` (None: not at all), but for requests with ``given`` drafts. ``strategy`` is
    what the tuner learns about."""

    context: Context
    strategy: Strategy = OFF
    shape: Strategy | None = None
    given: Sequence[tuple[int, ...] | None] | None = None
    suffixes: Sequence[Draft | None] = ()

    def drafter(self, place: int) -> Literal["eagle", "ngram"]:
        """Whose drafts the batch's request at ``place`` has, if any."""
        return "ngram" if self.given and self.given[place] else "eagle"

    def of(self, places: Sequence[int]) -> "StepPlan":
        """What it says of the requests at ``places`` alone; others had ended before."""
        given = self.given and [self.given[place] for place in places]
        return replace(self, given=given, suffixes=self.suffixes and [self.suffixes[place] for place in places])


class Speculator:
    """``tuner`` may be replaced. Knows requests from ``admit`` to ``finish``."""

    def __init__(self, config: SpeculationConfig, seed: int, costs: CostTable | None = None) -> None:
        self._strategies = [Strategy.of(strategy) for strategy in config.strategies]
        self.tuner = build_tuner(config, seed, costs)
        self._switch = ElasticSwitch(config.threshold, config.hysteresis)
        self._watchdog, self._evaluation_watchdog = Watchdog(), Watchdog("In evaluations with")
        self._lengths = RemainingLengthPredictor()
        self._store = SuffixStore(config.suffix.memory_bytes) if config.suffix.enabled else None
        self._selector = DrafterSelector()
        self._widths = DraftLengthChooser(costs.seconds if costs else assumed_seconds)
        self._costs = costs
        self.paces = StepPaces()
        self._counterfactual = Counterfactual()
        self._learned: dict[str, float] = {}
        self._drafting: set[int] = set()
        self._proving: frozenset[int] = frozenset()
        self._wait: dict[int, int] = {}
        self._patience: dict[int, int] = {}
        self._looks = 0
        self._now, self._fresh = Context(1), 0
        self._bucket, self._pause_left, self._pause = 0, 0, PAUSE
        self._limit = 0
        self._versions: dict[str, int] = {"target": 0, "drafter": 0}

    def take_costs(self, costs: CostTable) -> None:
        """Step times of a drafter of another size. Between rollouts only."""
        if isinstance(self.tuner, GoodputTuner):
            self.tuner.take_costs(costs)
        self._widths = DraftLengthChooser(costs.seconds)
        self._costs = costs

    def begin(self, limit: int) -> None:
        """A rollout starts; responses have at most ``limit`` tokens."""
        self.end()
        self._counterfactual.end_rollout()
        self._lengths.new_step()
        self._limit, self._fresh, self._bucket = limit, 0, 0
        self._switch.reset()

    def forgetful(self) -> "Speculator":
        """One that decides by what was learnt here, and learns for itself only. Alarms, and texts to draft from, are of both. Its prompts
        may be of another kind, so that acceptance is compared with that of earlier ones like it."""
        self.end()
        shared = self._evaluation_watchdog, self._store
        evaluating = deepcopy(self, {id(each): each for each in shared})
        evaluating._watchdog = self._evaluation_watchdog
        return evaluating

    def admit(self, request: int, prompt: Sequence[int], written: Sequence[int]) -> None:
        """``written`` grows as the request's tokens are generated."""
        self._wait[request], self._patience[request] = 0, PATIENCE
        self._fresh = 0
        self._counterfactual.admit(request, prompt, written)
        if self._store:
            self._store.begin(request, prompt, written)

    def finish(self, request: RunningRequest) -> None:
        self._forget(request.id, finished=True)
        self._lengths.finished(request.group, request.generated)

    def end(self) -> None:
        """Nothing that was admitted goes on, but for what is admitted again."""
        for request in list(self._wait):
            self._forget(request, finished=False)

    def remaining(self, request: RunningRequest) -> float:
        """Tokens that the request is predicted to need still."""
        return self._lengths.remaining(request.group, request.generated, self._limit)

    def loaded(self, what: Literal["target", "drafter"], version: int) -> None:
        """New weights."""
        self._versions[what], self._fresh = version, 0
        for watchdog in (self._watchdog, self._evaluation_watchdog):
            watchdog.loaded(what, version)
        self._proving = frozenset(self._drafting)

    def plan(self, batch: Sequence[RunningRequest], learned: bool) -> StepPlan:
        """The next step. ``learned``: whether the learned drafter can draft."""
        context = self._context(batch, learned)
        self._pause_left -= self._switch.update(len(batch))
        if context.drafters == {"none"}:
            return StepPlan(context)
        strategy = self.tuner.select(context)
        bucket = context.batch.bit_length()
        chosen = strategy.drafter == "eagle" and "none" in context.drafters  # who had to draft proves nothing
        (self._drafting.add if chosen else self._drafting.discard)(bucket)
        return StepPlan(context) if strategy == OFF else self._planned(batch, context, strategy)

    def plan_ahead(self, batch: Sequence[RunningRequest], learned: bool) -> StepPlan | None:
        """The step behind the next one, before that is recorded; ``batch`` is as it was then. None if it may depend on what the next one
        brings: the tuner learns from it, or drafts are looked up behind its tokens."""
        drafters = self._drafters(len(batch), learned)
        if drafters != {"none"}:
            context = replace(self._now, batch=len(batch), drafters=drafters)
            strategy = self.tuner.going_on(context)
            if strategy is None or strategy.drafter == "ngram":
                return None
            if self._store and strategy != OFF and not all(self._wait[request.id] for request in batch):
                return None
        return self.plan(batch, learned)

    def record(self, plan: StepPlan, accepted: Sequence[int], kept: Sequence[int], elapsed: float) -> None:
        """What the step brought each request of ``plan``: ``accepted`` drafts, and ``kept`` tokens (fewer, if the response ended before).
        They may be fewer than ran in it, see ``StepPlan.of``."""
        drafter = "eagle" if plan.shape else "ngram" if plan.given else "none"
        self._counterfactual.record(drafter, plan.context, kept, elapsed)
        if self._costs and self.paces.neighbours and not plan.given:
            self.paces.record(plan.strategy, plan.context, elapsed, self._costs.seconds(plan.strategy, plan.context))
        self.tuner.record(plan.strategy, plan.context, [tokens - 1 for tokens in kept], elapsed)
        for draft, drafts in zip(plan.suffixes, accepted, strict=False):
            if draft is not None and draft.tokens:
                self._selector.record(draft, drafts)
        if plan.shape is None:
            return
        if plan.context.behind >= FAR:
            self._fresh = 0  # the drafter has caught up
        given = plan.given or [None] * len(accepted)
        learned = [drafts for drafts, other in zip(accepted, given, strict=True) if other is None]
        self._watchdog.observe(len(learned), len(learned) - learned.count(0))
        self._observe(plan.shape, learned)

    def take_decode_seconds(self) -> DecodeSeconds | None:
        """Of the steps since the last call; None if there were none, or if nobody measured what steps cost."""
        if not (self._costs and isinstance(self.tuner, GoodputTuner)):
            return None
        return self._counterfactual.take(self.tuner, self._strategies)

    def take_alarms(self) -> list[Notice]:
        """What a user should look at, since the last call."""
        return self._watchdog.take_alarms() + self._evaluation_watchdog.take_alarms()

    def state(self) -> dict[str, Any]:
        """What was learnt, for a checkpoint; plain JSON values."""
        return {
            "tuner": self.tuner.state(),
            "watchdog": self._watchdog.state(),
            "evaluation_watchdog": self._evaluation_watchdog.state(),
            "lengths": self._lengths.state(),
            "gate": self._selector.state(),
            "learned": dict(self._learned),
            "drafting": sorted(self._drafting),
            "proving": sorted(self._proving),
            "texts": self._store.state() if self._store else [],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """What another tuner had learnt is left out: a resumed run may have another one."""
        if state["tuner"].keys() == self.tuner.state().keys():
            self.tuner.load_state(state["tuner"])
        self._watchdog.load_state(state["watchdog"])
        if "evaluation_watchdog" in state:  # checkpoints of earlier versions have none
            self._evaluation_watchdog.load_state(state["evaluation_watchdog"])
        self._lengths.load_state(state["lengths"])
        self._selector.load_state(state["gate"])
        self._learned = dict(state["learned"])
        self._drafting, self._proving = set(state["drafting"]), frozenset(state["proving"])
        if self._store:
            self._store.load_state(state.get("texts", []))  # checkpoints of earlier versions have none

    def _context(self, batch: Sequence[RunningRequest], learned: bool) -> Context:
        now, drafters = self._now, self._drafters(len(batch), learned)
        if self._fresh > 0 and now.batch == len(batch) and now.drafters == drafters:
            self._fresh -= 1
            return now
        lengths = [request.length for request in batch]
        generated = sum(request.generated for request in batch) / len(batch)
        horizon = self._lengths.outlook(generated, self._limit)
        behind = caught_up([length - request.drafted for length, request in zip(lengths, batch, strict=True)])
        length, versions = sum(lengths) / len(batch), self._versions
        self._fresh = FRESH - 1
        self._now = Context(len(batch), length, versions["target"], versions["drafter"], drafters, horizon, behind)
        return self._now

    def _drafters(self, batch: int, learned: bool) -> frozenset[DrafterName]:
        """Who can be asked now."""
        drafters: set[DrafterName] = {"none"}
        if self._switch.update(batch):
            if learned and self._watchdog.allows:
                drafters.add("eagle")
            if self._ngrams(batch.bit_length()):
                drafters.add("ngram")
            if "eagle" in drafters and self._watchdog.trying and batch.bit_length() in self._proving:
                drafters = {"eagle"}  # it was in use before the load: let it show whether it still works
        return frozenset(drafters)

    def _ngrams(self, bucket: int) -> bool:
        """Whether n-gram drafts may pay now; they may at other costs, that is, in another ``bucket`` of batch sizes."""
        if bucket != self._bucket:
            self._bucket, self._pause_left, self._pause = bucket, 0, PAUSE
        return self._store is not None and self._pause_left <= 0

    def _planned(self, batch: Sequence[RunningRequest], context: Context, strategy: Strategy) -> StepPlan:
        self._looks = LOOKS
        suffixes: Sequence[Draft | None] = [self._suffix(request, strategy) for request in batch]
        if strategy.drafter == "ngram":
            drafts = suffixes = self._narrowed([draft or EMPTY_DRAFT for draft in suffixes], batch, context)
            if not any(draft.tokens for draft in drafts):
                self._pause_left, self._pause = self._pause, min(2 * self._pause, max(PAUSE, len(batch) // 4), LONGEST_PAUSE)
                return StepPlan(context)
            self._pause = PAUSE
        if all(draft is None for draft in suffixes):
            return StepPlan(context, strategy, strategy)
        given = [None if draft is None else draft.tokens for draft in suffixes]
        return StepPlan(context, strategy, strategy if None in suffixes else None, given, suffixes)

    def _suffix(self, request: RunningRequest, strategy: Strategy) -> Draft | None:
        """The suffix draft to use; None leaves the request to the learned drafter."""
        model_free = strategy.drafter != "eagle"
        if not self._store:
            return EMPTY_DRAFT if model_free else None
        if not model_free and not self._may_look(request.id):
            return None
        learned = 0.0 if model_free else self._learned.get(str(strategy), 0.5)
        draft = self._selector.offer(self._store.draft(request.id, strategy.verify), learned)
        if draft.tokens or model_free:
            self._patience[request.id] = PATIENCE
            return draft
        self._wait[request.id] = self._patience[request.id]
        self._patience[request.id] = min(2 * self._patience[request.id], MOST_PATIENT)
        return None

    def _may_look(self, request: int) -> bool:
        if self._wait[request] > 0:
            self._wait[request] -= 1
            return False
        self._looks -= 1
        return self._looks >= 0

    def _narrowed(self, drafts: Sequence[Draft], batch: Sequence[RunningRequest], context: Context) -> list[Draft]:
        """Drafts no longer than pays in this step. Attention reaches over the longest request for all of them."""
        reach = max(request.length for request in batch)
        width = self._widths.best([draft.chances for draft in drafts], replace(context, length=reach))
        return [self._selector.narrow(draft, width) for draft in drafts]

    def _observe(self, shape: Strategy, accepted: Sequence[int]) -> None:
        """``accepted``: of whole drafts."""
        if accepted:
            mean, weight = sum(accepted) / len(accepted), min(1.0, len(accepted) / MEMORY)
            before = self._learned.get(str(shape), mean)
            self._learned[str(shape)] = (1 - weight) * before + weight * mean

    def _forget(self, request: int, finished: bool) -> None:
        del self._wait[request], self._patience[request]
        self._counterfactual.leave(request, finished)
        if self._store:
            self._store.end(request)
