"""Spot training of the drafter in micro-steps that can stop at any moment (TLT section 3). Knows nothing of who calls it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import inf
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer, Entry
from engine.drafter.held_out_evaluation import LOOK_AHEAD, UNJUDGED, HeldOutEvaluation, Judged, gain_noise
from engine.drafter.learning_rate import width_share
from engine.drafter.model import Drafter
from engine.drafter.packing import SEGMENT, MicroBatch, Segment, aligned, cut, pack, rows
from engine.drafter.recipe import HeldOutTruth, Recipe, TrainingTruth, chain_acceptance, ranks
from engine.drafter.training_report import TrainingReport
from engine.drafter.training_time_unroll import unrolled
from engine.drafter.window_past import past_of
from engine.models.host_to_device import to_device
from engine.models.onednn_linear import use_onednn
from engine.models.weights import host_copy
from engine.rollout.data_type import native_data_type

EVALUATED_TOKENS = 1024
AVERAGING = 3
JUDGED_FIRST, JUDGED_EVERY = (2, 4), 8
SLOWER = 0.7


class _InterruptedError(Exception):
    """A session ends at once."""


def _never() -> bool:
    return False


class SpotTrainer:
    """Trains one worker's copy of the drafter on its data buffer. ``set_target`` must come before anything else."""

    def __init__(
        self,
        drafter: Drafter,
        buffer: DataBuffer,
        config: SpotConfig,
        recipe: Recipe | None = None,
        seed: int = 0,
        optimizers: Sequence[Optimizer] | None = None,
    ) -> None:
        """``optimizers`` have the drafter's parameters among them; AdamW if not given. ValueError if the ``recipe``, EAGLE if not given,
        is for another kind of drafter."""
        self.drafter = drafter
        self.buffer = buffer
        self.config = config
        self.recipe = recipe or Recipe()
        if self.recipe.kind != drafter.kind:
            raise ValueError(f"a recipe for {self.recipe.kind} drafters cannot train one of kind {drafter.kind}")
        use_onednn(drafter)
        self._optimizers = optimizers or [torch.optim.AdamW(drafter.parameters(), betas=(0.9, 0.95), fused=True)]
        self.learning_rate = config.learning_rate
        self._random = Random(seed)
        self._uses: Counter[int] = Counter()  # tokens trained on, by entry
        self._embedding = self._head = torch.empty(0)
        self._drafted: tuple[Tensor, Tensor] | None = None  # d2t, and the rows of the head of what is drafted
        self._half: tuple[Tensor, Tensor] | None = None  # the head, and what it is in bfloat16

    def set_target(self, embedding: Tensor, head: Tensor) -> None:
        """The target's frozen embedding and head, both [V, H]; to be called after each update of the target."""
        weight = self.drafter.fc.weight
        self._embedding = embedding.detach().to(weight)
        self._head = head.detach().to(weight)
        self._drafted = None

    @property
    def _rows(self) -> Tensor:
        """Of the target's head, those of the tokens that are drafted, [D, H]."""
        d2t, vocabulary = self.drafter.d2t, self.drafter.vocabulary
        if d2t is None or vocabulary is None:
            return self._head
        if self._drafted is None or self._drafted[0] is not d2t:
            self._drafted = d2t, self._head[vocabulary]
        return self._drafted[1]

    @property
    def _training_rows(self) -> Tensor:
        """Those, in bfloat16 where it is multiplied in hardware: then training computes in bfloat16, with weights in float32."""
        rows = self._rows
        if native_data_type(rows.device, rows.shape[1]) != torch.bfloat16:
            return rows
        if self._half is None or self._half[0] is not rows:
            self._half = rows, rows.bfloat16()
        return self._half[1]

    @property
    def learning_rate(self) -> float:
        """As it is configured: of it a wide drafter's optimizers have their ``width_share``."""
        rate: float = self._optimizers[0].param_groups[0]["lr"]
        return rate / width_share(self.drafter.config.hidden_size)

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * width_share(self.drafter.config.hidden_size)

    def slow_down(self) -> None:
        """A session did not help: the next one takes smaller steps, down to ``config.learning_rate``, at which drafters keep up."""
        self.learning_rate = min(self.learning_rate, max(self.config.learning_rate, SLOWER * self.learning_rate))

    def train(
        self,
        should_stop: Callable[[], bool],
        resumed: Mapping[str, Any] | None = None,
        interrupted: Callable[[], bool] = _never,
    ) -> TrainingReport:
        """Micro-steps until ``should_stop()``, asked after each of them, is true, or there is nothing left to train on.

        Judges, at the first steps and then every ``JUDGED_EVERY``, the average of the weights after each step, later ones counting more
        (Shamir and Zhang, arXiv 1212.1824): a few steps on a few responses would else cost a good drafter more in noise than they teach
        it. Leaves the best that was judged, so that whoever stops it waits for a micro-step and not for an examination, which ends as
        soon as ``interrupted()`` is true, and the session with it. If nothing was judged by then, the weights are as before, and the
        report is UNJUDGED. ``resumed``: the ``state_dict`` of a session that was cut short, to go on with; that is always judged.
        """
        first = [weight.detach().clone() for weight in self.drafter.parameters()]
        distance = self.buffer.mix_distance()
        if resumed is not None:
            self.load_state_dict(resumed)
            interrupted = _never

        @cache
        def before() -> Judged:
            return self._judged(first, interrupted)

        average = [weight.detach().clone() for weight in self.drafter.parameters()]
        best, after = first, UNJUDGED
        losses: list[float] = []
        tokens = 0
        with suppress(_InterruptedError):
            for batch in self._batches(before, interrupted):
                losses.append(self.micro_step(batch))
                tokens += batch.tokens.numel()
                share = (AVERAGING + 1) / (len(losses) + AVERAGING)
                torch._foreach_lerp_(average, [weight.detach() for weight in self.drafter.parameters()], share)
                if should_stop():
                    raise _InterruptedError
                if len(losses) in JUDGED_FIRST or len(losses) % JUDGED_EVERY == 0:
                    before()
                    judged = self._judged(average, interrupted)
                    if not judged.accepted <= after.accepted:  # NaN, too: the loss tells of it
                        best, after = [weight.clone() for weight in average], judged
            if losses and (judged := self._judged(average, interrupted)).accepted > after.accepted:
                best, after = average, judged
        if losses and after is UNJUDGED and resumed is not None:
            best, after = average, self._judged(average, interrupted)
        torch._foreach_copy_([weight.detach() for weight in self.drafter.parameters()], best)
        loss = sum(losses) / max(1, len(losses))
        if after is not UNJUDGED:
            judgements = before(), after
        elif losses or interrupted():
            judgements = UNJUDGED, UNJUDGED
        else:
            judgements = before(), before()
        return TrainingReport(len(losses), tokens, loss, *judgements, distance, gain_noise(*judgements))

    def _judged(self, weights: Sequence[Tensor], interrupted: Callable[[], bool]) -> Judged:
        """The drafter with ``weights`` on held-out responses; its own are left as they are."""
        own = [weight.detach() for weight in self.drafter.parameters()]
        saved = [weight.clone() for weight in own]
        torch._foreach_copy_(own, list(weights))
        try:
            return self.evaluate(interrupted=interrupted).judged
        finally:
            torch._foreach_copy_(own, saved)

    def _batches(self, before: Callable[[], Judged], interrupted: Callable[[], bool]) -> Iterator[MicroBatch]:
        """Each response ``config.passes`` times, and again as often as long as that raises what is accepted on held-out responses,
        ``before()`` at first, by ``least_gain``: a drafter that knows little learns more of the same responses before it has them by
        heart."""
        passes, best = self.config.passes, -inf
        while True:
            while self._fresh(passes):
                yield from self.one_pass(passes)
            best = max(best, before().accepted)
            accepted = self.evaluate(interrupted=interrupted).accepted
            if not accepted - best >= self.config.trigger.least_gain:  # nor if training has gone astray: NaN
                return
            best, passes = accepted, passes + self.config.passes

    @property
    def has_data(self) -> bool:
        """Whether there is something to train on."""
        return bool(self._fresh(self.config.passes))

    def _fresh(self, passes: int) -> list[Entry]:
        """The buffer's mix, without what has been trained on ``passes`` times."""
        return [entry for entry in self.buffer.mix() if self._uses[entry.id] <= (passes - 1) * sum(map(len, self._segments(entry)))]

    def _segments(self, entry: Entry) -> list[Segment]:
        """What is trained on of it."""
        return cut(entry, self.config.tokens_per_microbatch, self.config.context)

    def one_pass(self, passes: int | None = None) -> Iterator[MicroBatch]:
        """Micro-batches of the buffer's current mix, each entry once, in random order, without those that have been trained on ``passes``
        times (by default ``config.passes``)."""
        bound = self.config.tokens_per_microbatch
        self._uses = Counter({number: used for number, used in self._uses.items() if number >= self.buffer.oldest})
        segments = [segment for entry in self._fresh(passes or self.config.passes) for segment in self._segments(entry)]
        self._random.shuffle(segments)
        for row in rows(segments, bound):
            for segment in row:
                self._uses[segment.entry.id] += len(segment)
            yield pack(row)

    def micro_step(self, batch: MicroBatch, unroll: int | None = None, recipe: Recipe | None = None) -> float:
        """One optimizer step with ``unroll`` passes, by default as many as configured; returns their mean loss before it, weighted as the
        ``recipe`` says, by default its own."""
        recipe = recipe or self.recipe
        unroll, rows = unroll or self.config.unroll or recipe.unroll, self._training_rows
        if batch.lengths:
            batch = aligned(batch)
        batch, head = batch.to(rows.device), self.drafter.head(rows)
        with torch.autocast(rows.device.type, torch.bfloat16, enabled=rows.dtype == torch.bfloat16):
            passes, reached = zip(*self._predict(batch, unroll), strict=True)
            there = to_device(torch.cat(reached)[:, batch.trained[0]], rows.device)
            loss = recipe.loss(passes, TrainingTruth(self._true(batch), rows), head, there)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return (loss / recipe.decays(len(passes)).sum()).item()

    def _predict(self, batch: MicroBatch, unroll: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Predicted features [n, H] of the trained positions, as the head reads them, in each of at most ``unroll`` passes; see
        ``unrolled``. They mean something where a draft can reach by so many tokens, a mask [1, N], in the first pass all of these; there
        may be fewer passes for lack of such."""
        embedded = self.drafter.embed(batch.tokens, self._embedding)
        past = past_of(self.drafter, self._embedding, batch)
        for step, features in enumerate(unrolled(self.drafter, embedded, batch, unroll, self.recipe.through, past)):
            reached = batch.trained & (batch.offset >= step)
            if not reached.any():
                break
            yield self.drafter.readout(_chosen(features, batch.trained)), reached

    def _true(self, batch: MicroBatch) -> Tensor:
        """The target's features [n, H] at the trained positions, as its head reads them."""
        return _chosen(batch.targets[..., -self._head.shape[-1] :], batch.trained).to(self._head.dtype)

    def evaluate(self, entries: Sequence[Entry] | None = None, interrupted: Callable[[], bool] = _never) -> HeldOutEvaluation:
        """The current weights on ``entries``, by default the newest held-out ones, about ``EVALUATED_TOKENS`` tokens of them.
        ``interrupted``: see ``train``."""
        held_out = self.buffer.held_out(EVALUATED_TOKENS) if entries is None else entries
        windows = [segment for entry in held_out for segment in cut(entry, EVALUATED_TOKENS, self.config.context)]
        return self.evaluate_segments(windows, interrupted)

    @torch.no_grad()
    def evaluate_segments(self, segments: Sequence[Segment], interrupted: Callable[[], bool] = _never) -> HeldOutEvaluation:
        """The same on parts of responses."""
        sums, positions, drafts = torch.zeros(4), 0, 0
        parts: list[tuple[float, float]] = []
        head, vocabulary = self.drafter.head(self._rows), self.drafter.vocabulary
        for row in rows(segments, EVALUATED_TOKENS):
            batch = aligned(pack(row)).to(head.device)
            passes = []
            for predicted, reached in self._predict(batch, LOOK_AHEAD):
                reaching = predicted.index_select(0, _places(reached[batch.trained], head.device))
                passes.append((reaching, to_device(reached, head.device)))
                if interrupted():
                    raise _InterruptedError
            truth = HeldOutTruth.of(self._true(batch), self._head, vocabulary)
            chains = list(chain_acceptance(passes, truth, head))
            rank = ranks(passes[0][0], truth, head)
            kept = torch.stack([kept.sum() for kept, _ in chains])
            sums += torch.stack([(rank < 1).sum(), (rank < 3).sum(), kept[0], kept.sum()]).cpu()
            positions += len(rank)
            drafts += sum(int(possible.sum()) for _, possible in chains)
            by_part = [torch.stack(found).sum(0).float().view(-1, SEGMENT).sum(1).tolist() for found in zip(*chains, strict=True)]
            parts += zip(*by_part, strict=True)
        agreement, top3, accept = (sums[:3] / max(1, positions)).tolist()
        return HeldOutEvaluation(agreement, top3, accept, (sums[3] / max(1, drafts)).item(), positions, tuple(parts))

    def weights(self) -> dict[str, Tensor]:
        """A copy of the drafter's tensors on the host."""
        weights: dict[str, Tensor] = host_copy(dict(self.drafter.state_dict()))
        return weights

    def reset(self, weights: dict[str, Tensor]) -> None:
        """Starts over from ``weights``: the optimizers have seen nothing, and no response was trained on."""
        self.drafter.load_state_dict(weights)
        self._uses.clear()
        for optimizer in self._optimizers:
            optimizer.zero_grad()
            optimizer.state.clear()

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs, copied to the host: drafter, optimizer and the order of the data; the buffer saves itself."""
        return {
            "drafter": self.weights(),
            "optimizers": [host_copy(optimizer.state_dict()) for optimizer in self._optimizers],
            "random": self._random.getstate(),
            "uses": dict(self._uses),
            "width_share": width_share(self.drafter.config.hidden_size),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.drafter.load_state_dict(state["drafter"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        if "width_share" not in state:  # checkpoints of earlier versions have the rate as it was configured
            self.learning_rate = self._optimizers[0].param_groups[0]["lr"]
        self._random.setstate(state["random"])
        self._uses = Counter(state["uses"])


def _places(mask: Tensor, device: torch.device) -> Tensor:
    """Where ``mask``, the host's, is true, of all its elements, [n]: a GPU is not asked for it."""
    return to_device(mask.flatten().nonzero()[:, 0], device)


def _chosen(states: Tensor, mask: Tensor) -> Tensor:
    """Of ``states`` [B, N, H] those where ``mask`` [B, N], the host's, is true: [n, H]."""
    return states.flatten(0, 1).index_select(0, _places(mask, states.device))
