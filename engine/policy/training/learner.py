"""The learner of one worker: log-probs of finished responses, and policy updates that all workers make together."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from engine.config.algorithm import AlgorithmConfig
from engine.drafter.feature_capture import FeatureCapture
from engine.drafter.kind import DrafterKind, captured_layers
from engine.errors import ConfigError
from engine.models.host_to_device import to_device
from engine.policy.algorithms.learning_rate import learning_rate
from engine.policy.algorithms.losses import Tokens
from engine.policy.algorithms.objective import Objective
from engine.policy.training.balance import balance
from engine.policy.training.microbatches import Microbatch, idle, microbatches
from engine.policy.training.policy import LogprobsAndEntropies, Policy
from engine.policy.training.training_row import Inferred, TrainingRow, alike

MOST_SKIPPED = 3
"""Updates in a row that are left out since their gradient is not finite, as a batch now and then may have one; more are no accident."""
LOSS_METRICS = ("loss", "kl", "clip_share")
TOKEN_METRICS = ("entropy", "logprob_gap")

KeepFeatures = Callable[[TrainingRow, Tensor], None]
"""Takes a row with its features [T - 1, W] in bfloat16, in host memory, of all tokens but the last."""


class Learner:
    """Trains ``policy`` with ``config``; every worker of its group has one, and all call ``update`` equally often; of a policy that is
    shared out ``infer`` and ``features``, too.

    Log-probs are of the full distribution at the sampling temperature; top-p and top-k are not applied, and the metric ``logprob_gap``
    shows how much they matter. ``limit`` is the greatest length of a response in tokens. The reference is the policy as given: to
    resume, start from it and then read a checkpoint into ``state``.
    """

    def __init__(self, policy: Policy, config: AlgorithmConfig, limit: int) -> None:
        self.policy, self._config = policy, config
        self._device, self._group = policy.device, policy.group
        self._objective = Objective(config, limit)
        trained = policy.trained().values()
        self._captured: tuple[DrafterKind, KeepFeatures] | None = None
        self._skipped = 0  # in a row
        self._pass: tuple[FeatureCapture, Microbatch, list[TrainingRow]] | None = None
        self._optimizer = torch.optim.AdamW(trained, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        for weight in trained:  # every one has its moments: a checkpoint is read into them
            begun = torch.zeros((), dtype=torch.float32, device=weight.device)
            self._optimizer.state[weight] = {"step": begun, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}

    @torch.no_grad()
    def infer(self, rows: Sequence[TrainingRow], groups: Sequence[int] | None = None) -> list[Inferred] | None:
        """Log-probs of the current policy, where ``needs_old_logprobs``, and of the reference, if there is one, in the order of
        ``rows``; None if neither is needed. Rows of the same number in ``groups`` are computed by themselves: what comes out is the same
        to the bit, whichever others there are. None: all rows together, as a sharded policy has to."""
        if not self._config.needs_inference:
            return None
        found: dict[int, Inferred] = {}
        for members in [[*range(len(rows))]] if groups is None else alike(groups):
            group = [rows[index] for index in members]
            for batch in self._microbatches(group):
                own = _of_rows(batch, self._forward(batch, group) if self._config.needs_old_logprobs else None)
                references = _of_rows(batch, self.policy.reference_forward(batch))
                pairs = zip(own, references, strict=True)
                found |= {members[place]: Inferred(*pair) for place, pair in zip(batch.rows, pairs, strict=True)}
            self._keep_features()
        return [found[index] for index in range(len(rows))]

    def capture(self, kind: DrafterKind, keep: KeepFeatures) -> None:
        """From now on ``keep`` gets what a drafter of ``kind`` reads of the rows that the policy has a pass for as it generated them: in
        ``infer`` if that looks at the policy's own log-probs, else in ``update``. Those of a step are far more than a host has memory for:
        here are never more than those of a pass."""
        self._captured = kind, keep

    def capture_nothing(self) -> None:
        self._captured = None

    def features(self, rows: Sequence[TrainingRow], kind: DrafterKind) -> list[Tensor]:
        """See KeepFeatures; of each row, by passes of their own."""
        found: dict[int, Tensor] = {}
        for batch in self._microbatches(rows):
            capture = self._capture(kind)
            self.policy.features(batch, capture)
            found |= {index: capture.of(place[:-1]) for index, place in zip(batch.rows, batch.places, strict=True)}
        return [found[index] for index in range(len(rows))]

    def _capture(self, kind: DrafterKind) -> FeatureCapture:
        return FeatureCapture(captured_layers(kind, self.policy.model.config.num_hidden_layers))

    def _forward(self, batch: Microbatch, rows: Sequence[TrainingRow]) -> LogprobsAndEntropies:
        """Of the policy that generated ``rows``, whose features it keeps if they are asked for."""
        if self._captured is None:
            return self.policy.forward(batch)
        self._keep_features()
        capture = self._capture(self._captured[0])
        self._pass = capture, batch, [rows[index] for index in batch.rows]
        return self.policy.forward(batch, capture)

    def _keep_features(self) -> None:
        """Those of the last pass, which a GPU has had time to write by now."""
        if self._pass and self._captured:
            capture, batch, rows = self._pass
            for row, place in zip(rows, batch.places, strict=True):
                self._captured[1](row, capture.of(place[:-1]))
            self._pass = None

    def update(self, rows: Sequence[TrainingRow], inferred: Sequence[Inferred] | None, step: int) -> dict[str, float]:
        """``updates_per_step`` optimizer updates on the rows of all workers; a worker may have none. ``inferred`` is ``infer``'s.

        The loss is over the rows of all workers that are not masked (see ``Objective``). Rows without a gradient cost nothing. Returns
        learning_rate and, if there was an update, loss, the mean over updates weighted by their size; means over the tokens of all
        workers: kl, where there is a reference, and clip_share; over those with a gradient, if there are any, entropy and logprob_gap (to
        the rollout's); and gradient_norm before clipping, the mean over updates. An update whose gradient is not finite is left out, and
        counts for nothing but skipped_updates. ConfigError, on every worker, after more than MOST_SKIPPED in a row.
        """
        rate = learning_rate(self._config, step)
        for parameters in self._optimizer.param_groups:
            parameters["lr"] = rate
        parts = balance([len(row.tokens) for row in rows], self._config.updates_per_step)
        totals, done, norms, skipped = self._no_sums(), (0.0, 0.0), list[float](), 0
        for part, (count, tokens) in zip(parts, self._sizes(rows, parts), strict=True):
            if count > 0:  # on all workers, so that every one makes the same optimizer steps
                taught = [index for index in part if rows[index].teaches(self._config.kl_in_loss)]
                found = self._backward([rows[index] for index in taught], inferred and [inferred[index] for index in taught], count)
                norm = self.policy.clip_gradients(self._config.max_gradient_norm)
                if self._steps(norm):
                    totals, done, norms = totals + found, (done[0] + count, done[1] + tokens), [*norms, norm]
                else:
                    skipped += 1
        self._keep_features()
        *sums, taught_tokens = self._sum(totals)
        metrics = {"learning_rate": rate} | ({"skipped_updates": float(skipped)} if skipped else {})
        if not norms:
            return metrics
        pairs = zip(sums, (*done, done[1]), strict=False)
        metrics |= {name: total / max(1.0, size) for name, (total, size) in zip(LOSS_METRICS, pairs, strict=True)}
        if not self._config.kl_coefficient:
            del metrics["kl"]
        if taught_tokens:
            metrics |= {name: total / taught_tokens for name, total in zip(TOKEN_METRICS, sums[len(LOSS_METRICS) :], strict=True)}
        return metrics | {"gradient_norm": sum(norms) / len(norms)}

    def _sizes(self, rows: Sequence[TrainingRow], parts: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
        """Of all workers' rows in each of ``parts``: what the loss is divided by, and the tokens."""
        lengths = [[rows[index].response_length for index in part if not rows[index].masked] for part in parts]
        own = [*(sum(map(self._objective.counts, part)) for part in lengths), *map(sum, lengths)]
        values = torch.tensor(own, dtype=torch.float64)
        found = self._sum(values if self._group is None else to_device(values, self._device))
        return [*zip(found[: len(parts)], found[len(parts) :], strict=True)]

    def _steps(self, norm: float) -> bool:
        """Makes the update, unless its gradient, of ``norm``, is not finite; that is so on all workers or on none."""
        self._skipped = 0 if isfinite(norm) else self._skipped + 1
        if self._skipped > MOST_SKIPPED:
            raise ConfigError(
                f"algorithm.learning_rate: with {self._config.learning_rate:g} the gradient norm of the policy is {norm}, the "
                f"{self._skipped}th time in a row: training has diverged; lower it, and begin anew"
            )
        if not self._skipped:
            self._optimizer.step()
        return not self._skipped

    def state(self) -> dict[str, Any]:
        """What training changes, without a copy: ``model``, the trained weights by name, and ``optimizer``, tensors by the weight's number.
        Both may be shards. See ``engine.checkpoint.learner_state``."""
        model = {name: weight.detach() for name, weight in self.policy.trained().items()}
        return {"model": model, "optimizer": self._optimizer.state_dict()["state"]}

    def _microbatches(self, rows: Sequence[TrainingRow]) -> list[Microbatch]:
        batches = microbatches(rows, self._config.tokens_per_microbatch, self._device, self.policy.packed)
        return batches + [idle(self._device)] * (self.policy.rounds(len(batches)) - len(batches))

    def _no_sums(self) -> Tensor:
        return torch.zeros(len(LOSS_METRICS) + len(TOKEN_METRICS) + 1, dtype=torch.float64, device=self._device)

    def _backward(self, rows: Sequence[TrainingRow], inferred: Sequence[Inferred] | None, count: float) -> Tensor:
        """Leaves the gradient of this worker's loss, whose global denominator is ``count``; returns the sums of LOSS_METRICS and
        TOKEN_METRICS, and the number of tokens."""
        self.policy.zero_gradients()
        sums = self._no_sums()
        rollout = [torch.tensor(row.rollout_logprobs) for row in rows]
        advantages = [torch.full((row.response_length,), row.advantage) for row in rows]
        olds = [found.logprobs for found in inferred or () if found.logprobs is not None]
        references = [found.reference_logprobs for found in inferred or () if found.reference_logprobs is not None]
        for batch in self._microbatches(rows):
            logprobs, entropies = self.policy.forward(batch) if self._config.needs_old_logprobs else self._forward(batch, rows)
            if not batch.rows:
                torch.autograd.backward(logprobs.sum())
                continue
            old = batch.join(olds) if olds else logprobs.detach()
            reference = batch.join(references) if references else None
            generated = batch.join(rollout)
            result = self._objective(Tokens(logprobs, old, batch.join(advantages), batch.responses), generated, reference)
            torch.autograd.backward(result.loss.sum() / count)
            gap = (generated - old).abs()
            values = torch.stack([result.loss.detach(), result.kl.detach(), result.clipped.float(), entropies, gap, torch.ones_like(gap)])
            sums += values.sum(dim=1, dtype=torch.float64)
        return sums

    def _sum(self, values: Tensor) -> list[float]:
        """Element-wise sums over all workers, into ``values``, which are on the device if there are others."""
        if self._group is not None:
            dist.all_reduce(values, group=self._group)
        return values.tolist()


def _of_rows(batch: Microbatch, found: LogprobsAndEntropies | None) -> Sequence[Tensor | None]:
    """Each row's log-probs, if any were found."""
    return batch.split(found[0]) if found else [None] * len(batch.rows)
