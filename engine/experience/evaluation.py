"""How good the policy is on prompts that it is not trained on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from statistics import fmean
from typing import TYPE_CHECKING

from engine.cluster.spot_training.drafter_versions import Published
from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig
from engine.experience.collection import requests_for, sampling, text_of
from engine.rollout.interface import Alarm
from engine.tasks.rewards import rewards_of
from engine.tasks.task import Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

RIGHT = 1.0
"""The reward of a response that counts as right."""


@dataclass(frozen=True)
class Evaluation:
    """``metrics`` by name; ``began`` in seconds since the epoch; ``alarms`` that there were, and the drafter that was ``rolled_back`` for
    them."""

    metrics: dict[str, float]
    began: float
    alarms: Sequence[Alarm] = ()
    rolled_back: Published | None = None


def evaluate(config: RunConfig, workers: WorkerGroup, task: Task, tokenizer: "PreTrainedTokenizerBase") -> Evaluation:
    """Samples ``evaluation.samples`` responses to each validation prompt, with the same noise every time, so that evaluations compare.
    A drafter that turns out to be broken is rolled back at once: what is saved and exported next has a good one.

    Metrics: ``eval/reward``, ``eval/pass_at_1``, ``eval/pass_at_K`` for K samples, ``eval/response_tokens``, ``eval/truncated_share``.
    """
    began = time.time()
    size = config.evaluation.samples
    prompts = task.validation(config.evaluation.prompts)
    drawn = replace(sampling(config), seed=config.seed ^ 2**30)  # not the noise of the training's first prompts
    answers = workers.answer(requests_for(0, 0, prompts, size), drawn)
    rolled_back = workers.heed(answers.alarms)
    completions = answers.completions
    texts = [text_of(tokenizer, completion.tokens) for completion in completions]
    rewards = rewards_of(task, [prompts[completion.request.group] for completion in completions], texts)
    right = [sum(reward >= RIGHT for reward in rewards[first : first + size]) for first in range(0, len(rewards), size)]
    metrics = {
        "reward": fmean(rewards),
        "pass_at_1": pass_at(1, size, right),
        f"pass_at_{size}": pass_at(size, size, right),
        "response_tokens": fmean(len(completion.tokens) for completion in completions),
        "truncated_share": fmean(completion.finish == "length" for completion in completions),
    }
    return Evaluation({f"eval/{name}": value for name, value in metrics.items()}, began, answers.alarms, rolled_back)


def pass_at(k: int, samples: int, right: Sequence[int]) -> float:
    """The share of prompts of which one of ``k`` responses is right, from how many of ``samples`` were: the unbiased estimate of
    "Evaluating Large Language Models Trained on Code", arXiv 2107.03374, section 2.1."""
    return fmean(1 - comb(samples - count, k) / comb(samples, k) for count in right)
