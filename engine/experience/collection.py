"""One step's experience: prompts, responses and rewards, in as many rollouts as it takes."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.cluster.distributed_rollout.driver import Rollout, joined_rollouts
from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig
from engine.policy.algorithms.credit_assignment import informative
from engine.rollout.interface import Completion, Request, Sampling
from engine.tasks.rewards import rewards_of
from engine.tasks.task import Prompt, Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Experience:
    """``responses`` (texts) and ``rewards`` in the order of the rollout's completions, group by group. ``kept``: indices of those to
    learn from, whole groups. ``rewarded``: when the last reward was there, in seconds since the epoch. ``scheduling``: metrics of what was
    done about the tail. ``overlapping``: generation goes on in all phases of the step, and began before it."""

    prompts: list[Prompt]
    rollout: Rollout
    responses: list[str]
    rewards: list[float]
    kept: list[int]
    rewarded: float
    scheduling: Mapping[str, float] = field(default_factory=dict)
    overlapping: bool = False


class Scores:
    """Texts and rewards of finished responses to ``prompts``, a list that may grow. To be called with completions; any thread may."""

    def __init__(self, task: Task, tokenizer: "PreTrainedTokenizerBase", prompts: Sequence[Prompt]) -> None:
        self._task, self._tokenizer, self._prompts = task, tokenizer, prompts
        self._texts: dict[int, str] = {}
        self._rewards: dict[int, float] = {}
        self._lock = threading.Lock()

    def __call__(self, completions: Sequence[Completion]) -> None:
        with self._lock:
            self._score(completions)

    def _score(self, completions: Sequence[Completion]) -> None:
        completions = [completion for completion in completions if completion.finish != "abort"]
        requests = [completion.request for completion in completions]
        texts = [text_of(self._tokenizer, completion.tokens) for completion in completions]
        found = rewards_of(self._task, [self._prompts[request.group] for request in requests], texts)
        for request, text, reward in zip(requests, texts, found, strict=True):
            self._texts[request.id], self._rewards[request.id] = text, reward

    def of(self, completions: Sequence[Completion]) -> tuple[list[str], list[float]]:
        """Texts and rewards, in order."""
        ids = [completion.request.id for completion in completions]
        return [self._texts[request] for request in ids], [self._rewards[request] for request in ids]


def gather(config: RunConfig, workers: WorkerGroup, task: Task, tokenizer: "PreTrainedTokenizerBase", step: int) -> Experience:
    """The responses of ``step``. Rewards of workers that are done are computed while others still generate.

    With ``algorithm.refills`` (DAPO's dynamic sampling) further prompts follow while too few groups have something to teach.
    """
    wanted, size = config.algorithm.prompts_per_step, config.algorithm.group_size
    rounds = 1 + config.algorithm.refills
    prompts: list[Prompt] = []
    rollouts: list[Rollout] = []
    scores = Scores(task, tokenizer, prompts)
    for index in range(step * rounds, (step + 1) * rounds):
        new = task.prompts(index, wanted)
        requests = requests_for(index, len(prompts), new, size)
        prompts += new
        rollouts.append(workers.rollout(step, requests, sampling(config), scores, workers.schedule.expected(requests)))
        rewards = [reward for rollout in rollouts for reward in scores.of(rollout.completions)[1]]
        kept = [group for group in range(len(prompts)) if informative(rewards[group * size : (group + 1) * size])]
        if len(kept) >= wanted:
            break
    if rounds == 1 or not kept:  # without dynamic sampling, groups that teach nothing are part of the loss's mean
        kept = list(range(wanted))
    rollout = joined_rollouts(rollouts)
    texts, _ = scores.of(rollout.completions)
    metrics = workers.schedule.learn(rollout.completions)
    members = [group * size + member for group in kept[:wanted] for member in range(size)]
    return Experience(prompts, rollout, texts, rewards, members, time.time(), metrics)


def text_of(tokenizer: "PreTrainedTokenizerBase", tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), skip_special_tokens=True))


def requests_for(index: int, first_group: int, prompts: Sequence[Prompt], size: int) -> list[Request]:
    """``size`` requests a prompt, with ids that no rollout of another ``index`` uses (they seed the sampling)."""
    base = index * len(prompts) * size
    return [
        Request(base + place * size + member, first_group + place, prompt.tokens)
        for place, prompt in enumerate(prompts)
        for member in range(size)
    ]


def sampling(config: RunConfig) -> Sampling:
    """That of the run's rollouts."""
    rollout = config.rollout
    return Sampling(
        rollout.temperature, rollout.top_p, rollout.top_k, rollout.max_new_tokens, config.seed, min_p=rollout.min_p, stop=rollout.stop
    )
