"""The learner of one worker: log-probs of finished responses, and data-parallel policy updates."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import PreTrainedModel

from engine.checksum import checksum
from engine.errors import CheckpointError
from engine.policy.batch import Inferred, Microbatch, Row, balance, microbatches
from engine.policy.config import AlgorithmConfig
from engine.policy.gradients import FlatGradients
from engine.policy.logprobs import label_logprobs
from engine.policy.losses import Tokens
from engine.policy.objective import Objective

LOSS_METRICS = ("loss", "kl", "clip_share")
LAW_METRICS = ("entropy", "logprob_gap")


class Learner:
    """Trains ``model``, in place, with ``config``; every worker of ``group`` has one and calls ``update`` equally often.

    Log-probs are of the full law at the sampling temperature (1 if that is 0, greedy); top-p and top-k are not applied, and the
    metric ``logprob_gap`` shows how much they matter. ``limit`` is the greatest length of a response in tokens. The reference is a
    frozen copy of ``model`` as given: to resume, construct from the start policy and then ``load_state``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: AlgorithmConfig,
        temperature: float,
        limit: int,
        device: torch.device | str,
        group: dist.ProcessGroup | None,
    ) -> None:
        self._device = torch.device(device)
        self._model = model.to(self._device).eval()  # type: ignore[arg-type]
        self._model.requires_grad_(True)
        self._reference = copy.deepcopy(self._model).requires_grad_(False) if config.kl_coefficient > 0 else None
        self._config = config
        self._objective = Objective(config, limit)
        self._temperature = temperature or 1.0
        self._group = group
        self._gradients = FlatGradients(self._model.parameters())
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True
        )

    @torch.no_grad()
    def infer(self, rows: Sequence[Row]) -> list[Inferred] | None:
        """Log-probs of the current policy and the reference, in the order of ``rows``.

        None without a reference and with one update a step: that update is on policy, so its own log-probs are the old ones.
        """
        if not self._config.needs_inference:
            return None
        found: dict[int, Inferred] = {}
        for batch in self._microbatches(rows):
            logprobs = batch.split(self._forward(self._model, batch)[0])
            references = batch.split(self._forward(self._reference, batch)[0]) if self._reference else [None] * len(batch.rows)
            found |= {index: Inferred(*law) for index, law in zip(batch.rows, zip(logprobs, references, strict=True), strict=True)}
        return [found[index] for index in range(len(rows))]

    def update(self, rows: Sequence[Row], inferred: Sequence[Inferred] | None, step: int) -> dict[str, float]:
        """``updates_per_step`` optimizer updates on the rows of all workers; a worker may have none. ``inferred`` is ``infer``'s.

        The loss is over the rows of all workers that are not masked (see ``Objective``). Rows without a gradient cost nothing. Returns
        loss, the mean over updates weighted by their size; means over the tokens of all workers: kl (0 without a reference) and
        clip_share; over those with a gradient, if there are any, entropy and logprob_gap (to the rollout's); and gradient_norm before
        clipping, the mean over updates. FloatingPointError, on every worker, if a gradient is not finite.
        """
        self._set_learning_rate(step)
        parts = balance([len(row.tokens) for row in rows], self._config.updates_per_step)
        lengths = [[rows[index].response_length for index in part if not rows[index].masked] for part in parts]
        *counts, tokens = self._sum([*(sum(map(self._objective.counts, part)) for part in lengths), sum(map(sum, lengths))])
        totals, norms = self._no_sums(), []
        for part, count in zip(parts, counts, strict=True):
            if count > 0:  # on all workers, so that every one makes the same optimizer steps
                taught = [index for index in part if rows[index].teaches(self._config.kl_in_loss)]
                totals += self._backward([rows[index] for index in taught], inferred and [inferred[index] for index in taught], count)
                norms.append(self._step())
        *sums, taught_tokens = self._sum(totals.tolist())
        sizes = (sum(counts), tokens, tokens)
        metrics = {name: total / max(1.0, size) for name, total, size in zip(LOSS_METRICS, sums, sizes, strict=False)}
        if taught_tokens:
            metrics |= {name: total / taught_tokens for name, total in zip(LAW_METRICS, sums[len(LOSS_METRICS) :], strict=True)}
        return metrics | {"gradient_norm": sum(norms) / max(1, len(norms))}

    def weights(self) -> dict[str, Tensor]:
        """The policy's weights by Hugging Face name, without a copy; a tied weight has one entry, as in a saved folder."""
        return {name: parameter.detach() for name, parameter in self._model.named_parameters()}

    def export(self, folder: Path) -> None:
        """Writes the policy as a Hugging Face folder, without a tokenizer."""
        self._model.save_pretrained(folder)

    def state(self) -> dict[str, Any]:
        """``model`` (weights, without a copy) and ``optimizer`` (tensors and plain values)."""
        return {"model": self.weights(), "optimizer": self._optimizer.state_dict()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from ``state``; CheckpointError if its weights are those of another model. The reference stays."""
        weights = self.weights()
        saved: Mapping[str, Tensor] = state["model"]
        if {name: weight.shape for name, weight in weights.items()} != {name: weight.shape for name, weight in saved.items()}:
            raise CheckpointError("the checkpoint holds the weights of another model; start a new run, or give the model it came from")
        for name, weight in weights.items():
            weight.copy_(saved[name])
        self._optimizer.load_state_dict(state["optimizer"])

    def checksum(self) -> str:
        """Of the policy's weights: equal on all workers after each update."""
        return checksum(self.weights().values())

    def _microbatches(self, rows: Sequence[Row]) -> list[Microbatch]:
        return microbatches(rows, self._config.tokens_per_microbatch, self._device)

    def _forward(self, model: PreTrainedModel, batch: Microbatch) -> tuple[Tensor, Tensor]:
        """Log-probs [N] and entropies [N]."""
        hidden: Tensor = model.base_model(input_ids=batch.tokens, use_cache=False).last_hidden_state
        states = hidden.flatten(0, 1).index_select(0, batch.predictors)
        head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        return label_logprobs(states, head, batch.labels, self._temperature)

    def _no_sums(self) -> Tensor:
        return torch.zeros(len(LOSS_METRICS) + len(LAW_METRICS) + 1, dtype=torch.float64, device=self._device)

    def _backward(self, rows: Sequence[Row], inferred: Sequence[Inferred] | None, count: float) -> Tensor:
        """Leaves the gradient of this worker's loss, whose global denominator is ``count``; returns the sums of LOSS_METRICS and
        LAW_METRICS, and the number of tokens."""
        self._gradients.zero()
        sums = self._no_sums()
        rollout = [torch.tensor(row.rollout_logprobs) for row in rows]
        advantages = [torch.full((row.response_length,), row.advantage) for row in rows]
        references = [found.reference_logprobs for found in inferred or () if found.reference_logprobs is not None]
        for batch in self._microbatches(rows):
            logprobs, entropies = self._forward(self._model, batch)
            old = logprobs.detach() if inferred is None else batch.join([found.logprobs for found in inferred])
            reference = batch.join(references) if self._reference else None
            generated = batch.join(rollout)
            result = self._objective(Tokens(logprobs, old, batch.join(advantages), batch.responses), generated, reference)
            torch.autograd.backward(result.loss.sum() / count)
            gap = (generated - old).abs()
            values = torch.stack([result.loss.detach(), result.kl.detach(), result.clipped.float(), entropies, gap, torch.ones_like(gap)])
            sums += values.sum(dim=1, dtype=torch.float64)
        return sums

    def _step(self) -> float:
        if self._group is not None:
            self._gradients.reduce(self._group)
        norm = self._gradients.clip(self._config.max_gradient_norm)
        self._optimizer.step()
        return norm.item()

    def _set_learning_rate(self, step: int) -> None:
        for parameters in self._optimizer.param_groups:
            parameters["lr"] = self._config.learning_rate * min(1.0, (step + 1) / (self._config.warmup_steps + 1))

    def _sum(self, values: Sequence[float]) -> list[float]:
        """Element-wise sums over all workers."""
        tensor = torch.tensor(values, dtype=torch.float64, device=self._device)
        if self._group is not None:
            dist.all_reduce(tensor, group=self._group)
        return tensor.tolist()
