"""The native rollout engine: continuous batching and lossless speculative decoding in plain PyTorch, on a CPU or a GPU."""

import time
from collections.abc import Callable, Mapping, Sequence, Set

import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.config import RolloutConfig, SpeculationConfig
from engine.errors import DataError, ModelError
from engine.rollout.base import Completion, Request, RolloutStatistics, Sampling
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import Law
from engine.rollout.native.scheduler import Response, Scheduler
from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tuner import Tuner, build_tuner


class NativeEngine:
    """A RolloutEngine. Without ``speculation`` nothing of a drafter exists; without drafter weights it decodes plainly until they come.

    Speculative and plain decoding give the same tokens for the same seed. Only rounding can tell them apart: matrix products of
    different shapes differ in their last bits, which decide between tokens that are equal to about six digits.
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
        keep_features: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """ModelError if the model is not supported or weights do not fit. ``seed`` is the tuner's; each generation has its own.
        ``keep_features`` (with speculation only) is for ``take_features``."""
        self._runner = Runner(config, torch.empty(0, device=device, dtype=dtype), drafting=speculation is not None)
        self._rollout, self._end_tokens, self._clock = rollout, end_tokens, clock
        self._vocabulary, self._device = config.vocab_size, device
        self._threshold = speculation.threshold if speculation else 0
        self._deepest = max(strategy.verify for strategy in speculation.strategies) if speculation else 0
        self.tuner: Tuner | None = build_tuner(speculation, seed) if speculation else None
        self._keep_features = keep_features
        self._features: dict[int, Tensor] = {}
        self._drafter_loaded = False
        self._drafter_version = 0
        self._scheduler = Scheduler([], 0)
        self._statistics = self._no_statistics()
        self.load_target(target_weights, 0)
        if drafter_weights is not None:
            self.load_drafter(drafter_weights, 0)

    @property
    def running(self) -> int:
        """Requests that are not finished yet."""
        return self._scheduler.unfinished

    @torch.inference_mode()
    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_finish: Callable[[Completion], None] | None = None
    ) -> list[Completion]:
        """See RolloutEngine. DataError, before anything is generated, if a prompt is empty or too long."""
        began = self._clock()
        longest = self._longest_prompt(requests)
        responses = [Response(request) for request in requests]
        self._scheduler = Scheduler(responses, self._rollout.max_batch)
        self._runner.reserve(min(self._rollout.max_batch, len(requests)), longest + sampling.max_new_tokens + self._deepest)
        law = Law(sampling, self._vocabulary, self._device)
        while self._scheduler.unfinished:
            self._admit()
            for response in self._step(law, sampling.max_new_tokens):
                if on_finish:
                    on_finish(self._completion(response))
        self._statistics.seconds += self._clock() - began
        return [self._completion(response) for response in responses]

    def load_target(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See RolloutEngine. ModelError, and nothing changed, if the weights do not fit."""
        self._runner.target.load(weights)
        self._target_version = version

    def load_drafter(self, weights: Mapping[str, Tensor], version: int) -> None:
        """See RolloutEngine. ModelError, and nothing changed, if the weights do not fit or speculation is off."""
        if not self._runner.drafter:
            raise ModelError("this engine was made without speculation, so it cannot load a drafter")
        self._runner.drafter.load(weights)
        self._drafter_loaded, self._drafter_version = True, version

    def take_features(self) -> dict[int, Tensor]:
        taken, self._features = self._features, {}
        return taken

    def release(self) -> None:
        self._runner.release()

    def resume(self) -> None:
        self._runner.resume()

    def take_statistics(self) -> RolloutStatistics:
        """See RolloutEngine. Draft positions count verified drafts; tokens and arms count what was kept (none after an end token)."""
        taken, self._statistics = self._statistics, self._no_statistics()
        taken.arms = self.tuner.take_arms() if self.tuner else []
        return taken

    def _admit(self) -> None:
        slots, copies = self._scheduler.admit()
        running = self._scheduler.running
        self._runner.prefill(slots, [response.request.prompt for response in running[slots.start : slots.stop]])
        for source, target in copies:
            prompt = len(running[target].request.prompt)
            self._runner.cache.copy(source, target, prompt)
            running[target].drafted = max(0, min(running[source].drafted, prompt - 2))

    def _step(self, law: Law, limit: int) -> list[Response]:
        """Decodes one step of every running request; returns those that finished."""
        batch, began = list(self._scheduler.running), self._clock()
        tuner = self._tuner_for(batch)
        strategy = tuner.select(len(batch)) if tuner else OFF
        drawn = self._runner.decode(batch, law, strategy.verify)
        kept = [response.extend(*new, self._end_tokens, limit) for response, new in zip(batch, drawn, strict=True)]
        if tuner:
            tuner.record(strategy, len(batch), [tokens - 1 for tokens in kept], self._clock() - began)
        self._count(strategy, [len(tokens) - 1 for tokens, _ in drawn], kept)
        if self._keep_features:
            finished = [(slot, response) for slot, response in enumerate(batch) if response.finish]
            self._features |= {
                response.request.id: self._runner.cache.features_of(slot, response.length - 1) for slot, response in finished
            }
        for source, target in self._scheduler.retire():
            self._runner.cache.copy(source, target, self._scheduler.running[target].length)
        return [response for response in batch if response.finish]

    def _tuner_for(self, batch: list[Response]) -> Tuner | None:
        """None if this step is plain anyway: no drafter, too many requests, or a first token, before which there is no feature."""
        ready = self._drafter_loaded and len(batch) <= self._threshold and all(response.length > 1 for response in batch)
        return self.tuner if ready else None

    def _count(self, strategy: Strategy, accepted: list[int], kept: list[int]) -> None:
        counts = self._statistics
        counts.decode_steps += 1
        counts.tokens += sum(kept)
        if strategy == OFF:
            return
        counts.speculative_requests += len(kept)
        counts.speculative_tokens += sum(kept)
        for position in range(strategy.verify):
            counts.drafted_by_position[position] += len(accepted)
            counts.accepted_by_position[position] += sum(drafts > position for drafts in accepted)

    def _no_statistics(self) -> RolloutStatistics:
        return RolloutStatistics(drafted_by_position=[0] * self._deepest, accepted_by_position=[0] * self._deepest)

    def _longest_prompt(self, requests: Sequence[Request]) -> int:
        limit = self._rollout.max_prompt_tokens
        for request in requests:
            tokens = len(request.prompt)
            if not 0 < tokens <= limit:
                raise DataError(f"the prompt of request {request.id} has {tokens} tokens; max_prompt_tokens allows 1 to {limit}")
        return max((len(request.prompt) for request in requests), default=0)

    def _completion(self, response: Response) -> Completion:
        assert response.finish
        return Completion(
            response.request,
            tuple(response.tokens),
            tuple(response.logprobs),
            response.finish,
            self._target_version,
            self._drafter_version,
        )
