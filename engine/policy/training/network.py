"""What the learner computes with a causal LM, each in one forward pass of one module: FSDP has weights together only inside those."""

from contextlib import nullcontext
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from engine.drafter.feature_capture import FeatureCapture
from engine.models.packed_attention import Mask, Segments, attend
from engine.policy.training.logprobs import label_logprobs
from engine.policy.training.microbatches import Microbatch

PACKED = "longtail_packed"


class Network(nn.Module):
    """``model`` at a sampling ``temperature``; 0, greedy, counts as 1."""

    def __init__(self, model: PreTrainedModel, temperature: float) -> None:
        super().__init__()
        self.model = model
        self._temperature = temperature or 1.0

    def forward(self, batch: Microbatch, capture: FeatureCapture | None = None) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies (without gradient) of the response tokens, both [N]. ``capture`` gets the features of all positions."""
        states = self._states(batch, capture).flatten(0, 1).index_select(0, batch.predictors)
        return label_logprobs(states, self.model.get_output_embeddings(), batch.labels, self._temperature)  # type: ignore[no-untyped-call]

    def features(self, batch: Microbatch, capture: FeatureCapture) -> None:
        """Gives ``capture`` the features of all positions, and computes nothing else."""
        self._states(batch, capture)

    def _states(self, batch: Microbatch, capture: FeatureCapture | None) -> Tensor:
        """After the final norm, [B, T, H]."""
        packed = {} if batch.segments is None else {"position_ids": batch.positions, "segments": batch.segments}
        with capture.inputs(self.model) if capture else nullcontext():
            outputs: Any = self.model.base_model(input_ids=batch.tokens, use_cache=False, **packed)
        states: Tensor = outputs.last_hidden_state
        if capture:
            capture.add(states)
        return states


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask,
    segments: Segments | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    return attend(module, query, key, value, segments or attention_mask, **options)


AttentionInterface.register(PACKED, _attend)
