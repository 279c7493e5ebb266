"""How far two policies are apart: their KL on what one of them writes, over the whole vocabulary."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import kl_div
from transformers import PreTrainedModel

from engine.config import RolloutConfig
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.from_model import engine_from_model


class PolicyDistance:
    """From the policy in the folder ``origin``, by its responses to prompts."""

    def __init__(self, origin: Path, prompts: Sequence[tuple[int, ...]], sampling: Sampling) -> None:
        self._origin = load_model(origin, torch.float32)
        ends = end_tokens(self._origin, load_tokenizer(origin))
        limits = RolloutConfig(max_prompt_tokens=max(map(len, prompts)), max_new_tokens=sampling.max_new_tokens)
        engine = engine_from_model(self._origin, ends, None, None, rollout=limits)
        self._responses = engine.generate([Request(index, index, prompt) for index, prompt in enumerate(prompts)], sampling)

    @torch.inference_mode()
    def to(self, policies: Sequence[Path]) -> list[float]:
        """KL(origin || policy) of each in nats, the mean over all tokens of the responses. All are in memory at once."""
        models = [load_model(policy, torch.float32) for policy in policies]
        totals = [0.0] * len(models)
        for response in self._responses:
            laws = _log_laws(self._origin, response)
            for place, model in enumerate(models):
                totals[place] += float(kl_div(_log_laws(model, response), laws, reduction="sum", log_target=True))
        tokens = sum(len(response.tokens) for response in self._responses)
        return [total / tokens for total in totals]


def _log_laws(model: PreTrainedModel, response: Completion) -> Tensor:
    """[T, vocabulary]: of each token of the response, at temperature 1."""
    tokens = torch.tensor([[*response.request.prompt, *response.tokens]])
    logits: Tensor = model(tokens, use_cache=False).logits
    return logits[0, len(response.request.prompt) - 1 : -1].double().log_softmax(-1)
