"""The native rollout engine: continuous batching and lossless speculative decoding in plain PyTorch, on a CPU or a GPU."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.config import GoodputConfig, RolloutConfig, SpeculationConfig
from engine.drafter.kind import DrafterKind
from engine.drafter.layout import DrafterLayout
from engine.errors import ModelError
from engine.models.checksum import checksum
from engine.rollout.decoding_timeline import DecodingTimeline
from engine.rollout.interface import (
    Completion,
    GenerationProgress,
    KeepFeatures,
    LoadedWeights,
    Request,
    RolloutStatistics,
    Sampling,
    longest_prompt,
)
from engine.rollout.native.architecture import Architecture
from engine.rollout.native.cost_measurement import cost_table
from engine.rollout.native.decode_step import Drawn
from engine.rollout.native.drafting import scratch
from engine.rollout.native.generation_control import GenerationControl
from engine.rollout.native.graphs.plan import GraphPlan
from engine.rollout.native.graphs.pool import Recorder
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.native.scheduler import Scheduler
from engine.rollout.response import Response, StopCondition
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.step_pace import Neighbours
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable

PLAIN = StepPlan(Context(0))


class NativeEngine:
    """A RolloutEngine. Without ``speculation`` nothing of a drafter exists; without drafter weights it decodes plainly until they come.

    Speculative and plain decoding give the same tokens for the same seed. On a CPU that holds to the bit (see Limits in engine/README.md).
    On a GPU rounding can tell them apart: products of different shapes differ in their last bits, which decide between near ties.
    """

    def __init__(
        self,
        config: PretrainedConfig,
        target_weights: Mapping[str, Tensor],
        *,
        rollout: RolloutConfig,
        speculation: SpeculationConfig | None,
        end_tokens: Set[int],
        device: torch.device,
        drafter_weights: Mapping[str, Tensor] | None = None,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        decode: Callable[[list[int]], str] | None = None,
        costs: Path | None = None,
        costs_later: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        recorder: Recorder | None = None,
        drafter_kind: DrafterKind = "eagle",
    ) -> None:
        """ModelError if the model is not supported or weights do not fit. ``seed`` is the tuner's; each generation has its own.
        ``decode`` makes text of tokens, for stop strings; ``costs`` is the folder where measured step times are kept for the tuner goodput;
        without it the tuner starts from a guess, as it does with ``costs_later`` until ``measure_costs`` is called. ``recorder`` records
        the passes' graphs; by default it is the device's own, and there is none on a CPU. ``drafter_kind`` is that of all drafter weights
        to come."""
        like = torch.empty(0, device=device, dtype=dtype)
        plan = GraphPlan.of_engine(speculation, rollout.max_batch) if recorder or like.is_cuda else None
        self._runner = Runner(config, like, speculation is not None, plan, recorder, drafter_kind, rollout.cache_tokens)
        self._occupied = 0
        self._drafter_kind = drafter_kind
        self._rollout, self._clock = rollout, clock
        self._end_tokens, self._decode_tokens = end_tokens, decode
        self._vocabulary, self._device = config.vocab_size, device
        strategies = [Strategy.of(strategy) for strategy in speculation.strategies] if speculation else []
        self._widest = max((strategy.top_k for strategy in strategies), default=0)
        if self._widest > config.vocab_size:
            raise ModelError(f"a strategy's top_k exceeds the vocabulary of {config.vocab_size} tokens")
        self._deepest = max((strategy.verify for strategy in strategies), default=0)
        self._scratch = max((scratch(strategy, device) for strategy in strategies), default=0)
        self.speculator: Speculator | None = None
        self._watches = self._learns = True
        self._forgetful: Speculator | None = None
        self._drafter_loaded = False
        self._drafter_version = 0
        self._measured_with: tuple[int | None] | None = None
        self._scheduler = Scheduler([], 0)
        self._control = GenerationControl()
        self.statistics = self._no_statistics()
        """The totals so far, without arms and alarms; ``take_statistics`` starts new ones."""
        self._timeline = DecodingTimeline()
        self.load_target(target_weights, 0)
        if drafter_weights is not None:
            self._take_drafter(drafter_weights, 0)
        self._costs = (Architecture.of(config), costs) if speculation and costs and isinstance(speculation.tuner, GoodputConfig) else None
        if speculation:
            self.speculator = Speculator(speculation, seed, None if costs_later else self.measured())
            if self._drafter_loaded:
                self.speculator.loaded("drafter", 0)

    @property
    def _active(self) -> Speculator | None:
        return (self._forgetful or self.speculator) if self._watches else None

    @torch.inference_mode()
    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_finish: Callable[[Completion], None] | None = None,
        keep: KeepFeatures | None = None,
    ) -> list[Completion]:
        """See RolloutEngine. DataError, before anything is generated, if a prompt is empty or too long. ``keep`` is called with speculation
        only."""
        longest = longest_prompt(requests, self._rollout.max_prompt_tokens)
        ends = StopCondition(self._end_tokens, sampling.stop, self._decode_tokens)
        responses = [Response(request) for request in requests]
        self._scheduler = Scheduler(responses, self._rollout.max_batch)
        self._control.begin()
        self._reserve(len(requests), longest + sampling.max_new_tokens)
        if self._active:
            self._active.begin(sampling.max_new_tokens)
        sampler = TokenSampler(sampling, self._vocabulary, self._device)
        while self._continues():
            self._admit()
            self._make_room()
            for slot, response in self._step(sampler, ends, sampling.max_new_tokens):
                if keep and self.speculator and self._learns:
                    keep(self._completion(response), self._runner.cache.features_of(slot, response.length - 1))
                if on_finish:
                    on_finish(self._completion(response))
            self._move(self._scheduler.retire())
        self._timeline.add(0, str(OFF))
        return [self._completion(response) for response in responses]

    def abort(self, requests: Collection[int] | None = None) -> None:
        self._control.abort(requests)

    def pause(self) -> None:
        self._control.pause()

    def proceed(self) -> None:
        self._control.proceed()

    def load_target(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See RolloutEngine. ModelError: see ``copy_weights``."""
        self._runner.load_target(weights)
        self._target_version = version
        if self.speculator:
            self.speculator.loaded("target", version)

    def load_drafter(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See RolloutEngine. ModelError if speculation is off, a strategy has more branches than the drafter has tokens, and as
        ``DraftModel.load`` says."""
        self._take_drafter(weights, version)
        assert self.speculator
        self.speculator.loaded("drafter", version)

    def _take_drafter(self, weights: Mapping[str, Tensor], version: int) -> None:
        if not self._runner.drafter:
            raise ModelError("this engine was made without speculation, so it cannot load a drafter")
        drafted = DrafterLayout.of(weights).drafted
        if drafted is not None and drafted < self._widest:
            raise ModelError(f"a strategy's top_k of {self._widest} exceeds the drafter's vocabulary of {drafted} tokens")
        self._runner.load_drafter(weights)
        self._drafter_loaded, self._drafter_version = True, version

    def measure_costs(self) -> None:
        """Has the tuner go by the costs of the drafter that is there now, unless it does: that is so for all drafters of the same number of
        tokens. Between generations only; costs that this machine does not know yet are measured, which may take a minute."""
        if self.speculator and self._measured_with != (self._drafted(),) and (costs := self.measured()):
            self.speculator.take_costs(costs)

    def loaded_weights(self) -> LoadedWeights:
        """See RolloutEngine."""
        drafter = self._runner.drafter if self._drafter_loaded else None
        return LoadedWeights(
            self._target_version,
            self._drafter_version,
            checksum(self._runner.target.parameters().values()),
            checksum(drafter.parameters().values()) if drafter else "",
        )

    def progress(self, now: float) -> GenerationProgress:
        """How far the generation is at ``now``; with speculation only. May be called from another thread while it runs."""
        assert self.speculator is not None, "the plain baseline predicts no lengths"
        running, waiting = list(self._scheduler.running), list(self._scheduler.waiting)
        unfinished = [response for response in (*running, *waiting) if not response.finish]
        remaining = {response.id: self.speculator.remaining(response) for response in unfinished}
        return GenerationProgress(now, {response.id: response.generated for response in running}, remaining)

    def watch(self, on: bool, learn: bool = True) -> None:
        if self._forgetful:
            self._forgetful.end()  # the store, which is of both, may still know what was aborted
        self._watches, self._learns = on, on and learn
        self._forgetful = self.speculator.forgetful() if self.speculator and not learn else None

    def beside(self, neighbours: Neighbours | None) -> None:
        if self.speculator:
            self.speculator.paces.neighbours = neighbours

    def release(self) -> None:
        self._runner.release()

    def resume(self) -> None:
        self._runner.resume()

    def take_statistics(self) -> RolloutStatistics:
        """See RolloutEngine. Draft positions count verified drafts; tokens and arms count what was kept (none after an end token)."""
        taken, self.statistics = self.statistics, self._no_statistics()
        taken.moments = {0: self._timeline.take_so_far()}
        if self.speculator:
            taken.arms = self.speculator.tuner.take_arms()
            taken.alarms = [(notice.code, notice.message) for notice in self.speculator.take_alarms()]
            if seconds := self.speculator.take_decode_seconds():
                taken.decode_seconds = {0: seconds}
            taken.paces = self.speculator.paces.take()
        return taken

    def _continues(self) -> bool:
        """Stands still while paused, and ends what is aborted; whether there is more to generate."""
        unwanted = self._control.take()
        if unwanted is None or unwanted:
            self._move(self._scheduler.abort(unwanted))
        return self._scheduler.unfinished > 0

    def _reserve(self, requests: int, longest: int) -> None:
        """Slots are empty after it. Graphs go with their cache, so there it has the size of the longest rollouts at once: pages of it are
        taken as they are needed."""
        slots, limits = min(self._rollout.max_batch, requests), self._rollout
        if self._runner.passes.plan:
            slots, longest = limits.max_batch, max(longest, limits.max_prompt_tokens + limits.max_new_tokens)
        self._runner.reserve(slots, longest + self._scratch + 1)
        for slot in range(self._runner.cache.slots):  # an error may have left something there
            self._runner.cache.release(slot)
        self._occupied = 0

    def _make_room(self) -> None:
        """For the next step; of those that run, some may have to wait again."""
        while (moves := self._scheduler.preempt(self._runner.cache.layout, self._scratch + 1)) is not None:
            self.statistics.preemptions = (self.statistics.preemptions or 0) + 1
            self._move(moves)

    def _move(self, moves: Iterable[tuple[int, int]]) -> None:
        """Responses go to other slots, and what lies behind the last of them is free."""
        cache, running = self._runner.cache, self._scheduler.running
        for source, target in moves:
            cache.hand_over(source, target, running[target].length)
        for slot in range(len(running), self._occupied):
            cache.release(slot)
        self._occupied = len(running)

    def _admit(self) -> None:
        slots, copies = self._scheduler.admit(self._runner.cache.layout, self._scratch + 1)
        running = self._scheduler.running
        self._occupied = len(running)
        begun = slots.start + sum(not response.tokens for response in running[slots.start : slots.stop])
        for part in (range(slots.start, begun), range(begun, slots.stop)):  # each is padded, and those that go on are long
            self._runner.prefill(part, [response.known for response in running[part.start : part.stop]])
        for source, target in copies:
            prompt = len(running[target].request.prompt)
            self._runner.cache.share(source, target, prompt)
            running[target].drafted = max(0, min(running[source].drafted, prompt - 2))
        if self._active:
            for response in running[slots.start : slots.stop + len(copies)]:
                if not response.admitted:
                    self._active.admit(response.id, response.request.prompt, response.tokens)
        for response in running[slots.start : slots.stop + len(copies)]:
            response.admitted = True

    def _step(self, sampler: TokenSampler, ends: StopCondition, limit: int) -> list[tuple[int, Response]]:
        """Decodes every running request, by one step or until some finish; returns these, which are still in their slots."""
        batch, began = list(self._scheduler.running), self._clock()
        plan = self._plan(batch)
        self._timeline.add(len(batch), str(plan.strategy))
        if self._device.type == "cuda":
            return self._steps_ahead(batch, plan, sampler, ends, limit, began)
        drawn = self._runner.decode(batch, sampler, plan)
        return self._take(batch, drawn, plan, ends, limit, began)

    def _steps_ahead(
        self, batch: list[Response], plan: StepPlan, sampler: TokenSampler, ends: StopCondition, limit: int, began: float
    ) -> list[tuple[int, Response]]:
        """While the host looks at what a step has brought, the GPU is at the next one already, if that can be planned without knowing it.
        What it brings a response that has ended meanwhile is thrown away."""
        finished: list[tuple[int, Response]] = []
        step = self._runner.begin(batch, sampler, plan)
        while True:
            before = self._clock()
            ahead = self._plan_ahead(batch) if not finished and self._goes_on(batch, step.most, limit) else None
            following = self._runner.begin(batch, sampler, ahead, step) if ahead else None
            beginning = self._clock() - before  # is time of the step that begins, whenever that happens
            drawn = step.read()
            finished += self._take(batch, drawn, plan, ends, limit, began + beginning)
            if ahead is None or following is None:
                return finished
            began, step, plan = self._clock() - beginning, following, ahead
            self._timeline.add(len(batch), str(plan.strategy))

    def _goes_on(self, batch: Sequence[Response], unread: int, limit: int) -> bool:
        """Whether, as far as is known, the step behind the one that runs, which brings up to ``unread`` tokens, is of the same batch, and
        there is room for it."""
        if self._control.asked or any(response.generated + unread >= limit for response in batch):
            return False
        room, beyond = self._runner.cache.layout, unread + self._scratch + 1
        return room.missing([response.length + beyond for response in batch]) <= room.free

    def _plan_ahead(self, batch: Sequence[Response]) -> StepPlan | None:
        """The plan of the step behind the one that runs; None if that depends on what the latter brings."""
        return self._active.plan_ahead(batch, self._can_draft(batch)) if self._active else PLAIN

    def _can_draft(self, batch: Sequence[Response]) -> bool:
        """The drafter may not be there yet, and has no feature to draft a first token from."""
        return self._drafter_loaded and all(response.length > 1 for response in batch)

    def _plan(self, batch: Sequence[Response]) -> StepPlan:
        return self._active.plan(batch, self._can_draft(batch)) if self._active else PLAIN

    def _take(
        self, batch: Sequence[Response], drawn: Sequence[Drawn], plan: StepPlan, ends: StopCondition, limit: int, began: float
    ) -> list[tuple[int, Response]]:
        """What a step has brought all that had not finished before; returns those that finish by it, with their slots."""
        running = [(slot, response) for slot, response in enumerate(batch) if not response.finish]
        if not running:
            return []
        if len(running) < len(batch):
            plan, drawn = plan.of([slot for slot, _ in running]), [drawn[slot] for slot, _ in running]
        kept = [response.extend(new.tokens, new.logprobs, ends, limit) for (_, response), new in zip(running, drawn, strict=True)]
        for place, ((_, response), new, tokens) in enumerate(zip(running, drawn, kept, strict=True)):
            response.made(tokens, min(new.accepted, tokens), plan.drafter(place))
        self._count(plan, drawn, kept)
        finished = [(slot, response) for slot, response in running if response.finish]
        if self._active:
            self._active.record(plan, [new.accepted for new in drawn], kept, self._clock() - began)
            for _, response in finished:
                self._active.finish(response)
        return finished

    def _count(self, plan: StepPlan, drawn: Sequence[Drawn], kept: Sequence[int]) -> None:
        counts = self.statistics
        counts.decode_steps += 1
        counts.tokens += sum(kept)
        if plan.strategy == OFF:
            return
        counts.speculative_requests += len(kept)
        counts.speculative_tokens += sum(kept)
        _add_reached(counts.drafted_by_position, [new.drafted for new in drawn])
        _add_reached(counts.accepted_by_position, [new.accepted for new in drawn])
        ngrams = [new for place, new in enumerate(drawn) if plan.drafter(place) == "ngram"]
        _add_reached(counts.ngram_drafted_by_position, [new.drafted for new in ngrams])
        _add_reached(counts.ngram_accepted_by_position, [new.accepted for new in ngrams])

    def _no_statistics(self) -> RolloutStatistics:
        return RolloutStatistics(
            preemptions=0,
            drafted_by_position=[0] * self._deepest,
            accepted_by_position=[0] * self._deepest,
            ngram_drafted_by_position=[0] * self._deepest,
            ngram_accepted_by_position=[0] * self._deepest,
        )

    def measured(self) -> CostTable | None:
        """What decode steps cost on this machine, measured now if it is not known yet; None if nothing goes by it."""
        if self._costs is None:
            return None
        (architecture, folder), drafted = self._costs, self._drafted()
        self._measured_with = (drafted,)
        identity = f"{architecture} {self._runner.dtype}" + (" eagle3" if self._drafter_kind == "eagle3" else "")
        identity += "" if drafted is None else f" of {drafted} tokens"
        limit = self._rollout.max_prompt_tokens + self._rollout.max_new_tokens
        return cost_table(folder, self._runner, identity, self._rollout.max_batch, self._vocabulary, limit)

    def _drafted(self) -> int | None:
        """How many tokens the drafter drafts from; None: all."""
        return self._runner.drafter.layout.drafted if self._runner.drafter else None

    def _completion(self, response: Response) -> Completion:
        return response.completion(self._target_version, self._drafter_version)


def _add_reached(by_position: list[int], reached: list[int]) -> None:
    """Adds to each position how many reached beyond it."""
    for position, count in enumerate(np.bincount(reached)[:0:-1].cumsum()[::-1].tolist()):
        by_position[position] += count
