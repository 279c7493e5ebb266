"""From the rewards of a step's responses to what each of them teaches."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.config import RunConfig
from engine.config.algorithm import AlgorithmConfig
from engine.policy.algorithms.kl import KL_ESTIMATORS
from engine.policy.algorithms.registry import advantage
from engine.policy.training.training_row import Inferred, TrainingRow
from engine.rollout.interface import Completion


def training_rows(config: RunConfig, completions: Sequence[Completion]) -> list[TrainingRow]:
    """One row a response, still without an advantage."""
    return [
        TrainingRow(
            tokens=(*completion.request.prompt, *completion.tokens),
            prompt_length=len(completion.request.prompt),
            advantage=0.0,
            rollout_logprobs=completion.logprobs,
            masked=config.algorithm.mask_truncated and completion.finish == "length",
        )
        for completion in completions
    ]


def advantages(
    config: RunConfig, rows: Sequence[TrainingRow], rewards: Sequence[float], inferred: Sequence[Inferred] | None
) -> list[float]:
    """One a row; rows and rewards stand group by group. The KL term, if it is in the reward, is that of the whole response (as in RLOO,
    arXiv 2402.14740, equation 1), from ``inferred``."""
    algorithm = config.algorithm
    lengths = torch.tensor([row.response_length for row in rows])
    total = torch.tensor(rewards).double() + overlong_penalty(lengths, config.rollout.max_new_tokens, algorithm.overlong_share)
    if algorithm.kl_in_reward:
        assert inferred is not None, "a KL term needs inference"
        estimate = KL_ESTIMATORS[algorithm.kl]
        logprobs = [(found.logprobs, found.reference_logprobs) for found in inferred]
        kls = [estimate(own, reference) for own, reference in logprobs if own is not None and reference is not None]
        total -= algorithm.kl_coefficient * torch.stack([kl.double().sum() for kl in kls])
    found: list[float] = advantage(algorithm)(total.float().view(-1, algorithm.group_size)).flatten().tolist()
    return found


def looked_up(algorithm: AlgorithmConfig, rows: Sequence[TrainingRow]) -> list[int]:
    """Indices of the rows whose log-probs of before are looked up, by ``advantages`` or by the loss."""
    everyone = algorithm.kl_in_reward
    return [index for index, row in enumerate(rows) if algorithm.needs_inference and (everyone or row.teaches(algorithm.kl_in_loss))]


def overlong_penalty(lengths: Tensor, limit: int, share: float) -> Tensor:
    """DAPO's soft overlong punishment (arXiv 2503.14476, equation 13), in [-1, 0], of the shape of ``lengths`` (tokens).

    The last ``share`` of ``limit`` is the buffer: 0 up to it, falling in a straight line to -1 at the limit. No buffer, no penalty.
    """
    buffer = share * limit
    if not buffer:
        return lengths.double() * 0
    return ((limit - buffer - lengths.double()) / buffer).clamp(-1.0, 0.0)


def informative(rewards: Sequence[float]) -> bool:
    """Whether a group's rewards say that one response is better than another (DAPO's dynamic sampling, arXiv 2503.14476, section 3.2)."""
    return min(rewards) < max(rewards)
