"""What the learner computes with a causal LM, each in one forward pass of one module: FSDP has weights together only inside those."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

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

    def forward(self, batch: Microbatch) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies (without gradient) of the response tokens, both [N]."""
        states = self._run(batch).last_hidden_state.flatten(0, 1).index_select(0, batch.predictors)
        return label_logprobs(states, self.model.get_output_embeddings(), batch.labels, self._temperature)  # type: ignore[no-untyped-call]

    def features(self, batch: Microbatch, layers: Sequence[int]) -> Tensor:
        """The inputs of ``layers``, then the hidden states after the final norm, of all positions: [B, T, W]."""
        outputs = self._run(batch, output_hidden_states=bool(layers))
        return torch.cat([*(outputs.hidden_states[layer] for layer in layers), outputs.last_hidden_state], -1)

    def _run(self, batch: Microbatch, **options: bool) -> Any:
        packed = {} if batch.segments is None else {"position_ids": batch.positions, "segments": batch.segments}
        return self.model.base_model(input_ids=batch.tokens, use_cache=False, **packed, **options)


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
