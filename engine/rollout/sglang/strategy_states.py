"""What an EAGLE worker of SGLang needs for each of our strategies: attention backends and CUDA graphs, shared where they are equal.

SGLang keeps such sets for each length of a chain and swaps them between decode steps (its ``speculative/adaptive_runtime_state.py``). Here
drafts have sets by depth and top_k, the target's pass has one by tokens and by whether they are a tree, and the drafter's pass behind it by
tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.rollout.sglang.draft_trees import NarrowDrafts
from engine.rollout.sglang.strategy_policy import StrategyPolicy
from engine.rollout.sglang.supported_speculation import Widest
from engine.speculation.strategy import OFF, Strategy

DECODE = ("draft_attn_backend", "cuda_graph_runner", "_topk1_parents_prealloc", "_topk1_score_indices_prealloc")
EXTEND = ("draft_extend_attn_backend", "cuda_graph_runner_for_draft_extend")
VERIFY = ("attn_backend", "decode_cuda_graph_runner")
Key = tuple[str, int, int]


@dataclass(frozen=True)
class StateSet:
    """Attributes of the draft worker, or of the target's model runner, and the gigabytes of its CUDA graphs."""

    attributes: Mapping[str, Any]
    gigabytes: float


class StrategyStates:
    """Stands where SGLang's worker has its adaptive controller: swaps sets before each decode step as ``params`` says, and tells that what
    came of it."""

    def __init__(self, worker: Any, policy: StrategyPolicy) -> None:
        """``worker`` was made for the widest strategy. Nothing was recorded yet, and what SGLang would record of itself is left out."""
        self.params = policy
        self._worker, self._drafter = worker, worker.draft_worker
        self._runner = worker.target_worker.model_runner
        self._widest = Widest(worker.speculative_num_steps, worker.topk, worker.speculative_num_draft_tokens)
        self._drafts = self._drafter.draft = NarrowDrafts(self._drafter)
        self._sets: dict[Key, StateSet] = {}
        self._active: Strategy | None = None
        self._record = self._drafter._capture_cuda_graphs
        self._drafter._capture_cuda_graphs = lambda: None
        self._drafter.cuda_graph_runner = self._drafter.cuda_graph_runner_for_draft_extend = None
        worker.target_worker.init_cuda_graphs = partial(worker.target_worker.init_cuda_graphs, capture_decode_cuda_graph=False)
        for runner in (self._runner, *self._drafter.draft_runners):
            runner.max_decode_logits_rows = self._most_rows

    def register(self, state: Any) -> None:
        """SGLang's own set, which has backends of the widest strategy and no graphs."""

    def init_states(self, cuda_graph_bs: list[int] | None = None) -> None:  # noqa: ARG002
        """Makes all sets; called once, when SGLang has made what they rest on."""
        makers = {"draft_decode": self._draft_decode, "draft_extend": self._draft_extend, "target_verify": self._target_verify}
        for strategy in self.params.strategies:
            for key in keys(strategy):
                if key not in self._sets:
                    self._sets[key] = self._measured(strategy, partial(makers[key[0]], *key[1:]))
        self._activate(self.params.strategies[-1])

    def activate_step_by_batch(self, batch_size: int) -> None:
        self._activate(self.params.begin_step(batch_size))

    def on_verify_complete(self, num_correct_drafts_per_req: Sequence[int], batch_size: int) -> None:  # noqa: ARG002
        self.params.end_step(num_correct_drafts_per_req)

    def describe(self) -> dict[str, dict[str, Any]]:
        """The key of each set that a strategy uses, and its gigabytes."""
        return {str(each): {" ".join(map(str, key)): self._sets[key].gigabytes for key in keys(each)} for each in self.params.strategies}

    def _activate(self, strategy: Strategy) -> None:
        if strategy == self._active:
            return
        self._active = strategy
        steps, top_k, tokens = _shape(strategy)
        for worker in (self._worker, self._drafter):
            worker.speculative_num_steps, worker.speculative_num_draft_tokens = steps, tokens
        self._worker.topk = self._drafts.top_k = top_k
        for key, owner in zip(keys(strategy), (self._drafter, self._drafter, self._runner), strict=True):
            for name, value in self._sets[key].attributes.items():
                setattr(owner, name, value)
        self._drafter.draft_runner.draft_attn_backend = self._drafter.draft_attn_backend
        if self._drafter.draft_extend_attn_backend is not None:
            self._drafter.draft_runner.attn_backend = self._drafter.draft_extend_attn_backend

    def _draft_decode(self, steps: int, top_k: int) -> dict[str, Any]:
        with self._made_for(steps, top_k, steps + 1):
            self._drafter.init_attention_backend()
            self._drafter._rebuild_topk1_chain_buffers()
            self._drafter.draft_extend_attn_backend = None
            self._record()
            return {name: getattr(self._drafter, name) for name in DECODE}

    def _draft_extend(self, tokens: int, _: int) -> dict[str, Any]:
        with self._made_for(1, self._widest.top_k, tokens):  # of a single level the drafter itself drafts nothing
            self._drafter.init_attention_backend()
            self._record()
            return {name: getattr(self._drafter, name) for name in EXTEND}

    def _target_verify(self, tokens: int, tree: int) -> dict[str, Any]:
        from sglang.srt.model_executor.runner import DecodeCudaGraphRunner

        steps, runner = tokens - 1, self._runner
        with self._made_for(steps, self._widest.top_k if tree else 1, tokens):
            fresh = runner.init_new_workspace
            backend = runner._get_attention_backend(init_new_workspace=True)
            runner.init_new_workspace = fresh
            sizes = {"speculative_num_steps": steps, "speculative_num_draft_tokens": tokens}
            recorded = DecodeCudaGraphRunner(runner, attn_backend=backend, **sizes) if _graphs() else None
            return dict(zip(VERIFY, (backend, recorded), strict=True))

    def _measured(self, strategy: Strategy, make: Callable[[], Mapping[str, Any]]) -> StateSet:
        from sglang.srt.utils.common import get_available_gpu_memory

        if not _graphs():
            return StateSet(make(), 0.0)
        device = self._worker.device, self._worker.gpu_id
        before = get_available_gpu_memory(*device)
        with _recording(self.params.graph_sizes(strategy, _graphs())):
            made = make()
        return StateSet(made, before - get_available_gpu_memory(*device))

    def _most_rows(self) -> int:
        """Rows of logits that the largest graph has."""
        shapes = [(max(self.params.graph_sizes(each, _graphs())), _shape(each).tokens) for each in self.params.strategies]
        return max(size * tokens for size, tokens in shapes)

    @contextmanager
    def _made_for(self, steps: int, top_k: int, tokens: int) -> Iterator[None]:
        """Worker and settings say so inside, and speak of the widest strategy behind it."""
        try:
            self._set_shape(steps, top_k, tokens)
            yield
        finally:
            self._set_shape(*self._widest)

    def _set_shape(self, steps: int, top_k: int, tokens: int) -> None:
        from sglang.srt.runtime_context import get_context

        names = {"speculative_num_steps": steps, "speculative_num_draft_tokens": tokens}
        for worker in (self._worker, self._drafter):
            worker.topk = top_k
            for name, value in names.items():
                setattr(worker, name, value)
        get_context().override("longtail", speculative_eagle_topk=top_k, **names)


def keys(strategy: Strategy) -> tuple[Key, Key, Key]:
    """Of the sets that it uses: for its drafts, the drafter's pass behind the target's, and the target's."""
    steps, top_k, tokens = _shape(strategy)
    return ("draft_decode", steps, top_k), ("draft_extend", tokens, 0), ("target_verify", tokens, int(top_k > 1))


def _shape(strategy: Strategy) -> Widest:
    return Widest(0, 1, 1) if strategy == OFF else Widest(strategy.depth, strategy.top_k, strategy.verify + 1)


def _graphs() -> list[int]:
    """Batch sizes that SGLang would record CUDA graphs of; none if it records no graphs."""
    from sglang.srt.model_executor.cuda_graph_config import Backend
    from sglang.srt.runtime_context import get_exec

    config = get_exec().graph.cuda_graph_config
    return [] if config is None or config.decode.backend == Backend.DISABLED else list(config.decode.bs)


@contextmanager
def _recording(sizes: list[int]) -> Iterator[None]:
    """Graphs are recorded of these batch sizes."""
    from sglang.srt.runtime_context import get_context, get_exec

    config = get_exec().graph.cuda_graph_config
    get_context().override("longtail", cuda_graph_config=replace(config, decode=replace(config.decode, bs=sizes)))
    try:
        yield
    finally:
        get_context().override("longtail", cuda_graph_config=config)
