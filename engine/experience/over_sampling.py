"""One step's experience from more prompts than it needs: the groups that are complete first; the rest is stopped."""

import time
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig
from engine.experience.collection import Experience, Scores, sampling
from engine.rollout.interface import Completion
from engine.tasks.task import Prompt, Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def gather_over_sampled(config: RunConfig, workers: WorkerGroup, task: Task, tokenizer: "PreTrainedTokenizerBase", step: int) -> Experience:
    """As ``engine.experience.collection.gather``. The order of prompts is that of a run without over-sampling; with ``partial`` the
    groups that are stopped, or that come too late, are the first of the next step, as far as they are.

    Groups that are complete at the start count first, then by their order: which are complete is a matter of time.
    """
    wanted, scheduling, schedule = config.algorithm.prompts_per_step, config.rollout.scheduling, workers.schedule
    groups = schedule.backlog.take(ceil(wanted * scheduling.over_sampling))
    prompts = prompts_at(task, [group.position for group in groups], wanted)
    requests = [group.requests(index, prompt.tokens) for index, (group, prompt) in enumerate(zip(groups, prompts, strict=True))]
    known = [each for index, group in enumerate(groups) for each in group.completions(index, prompts[index].tokens)]
    found = {completion.request.id: completion for completion in known}
    scores = Scores(task, tokenizer, prompts)
    scores(known)
    unfinished = [request for members in requests for request in members if request.id not in found]
    quota = wanted - sum(group.complete for group in groups)
    rollout = workers.rollout(step, unfinished, sampling(config), scores, schedule.expected(unfinished), quota)
    found |= {completion.request.id: completion for completion in rollout.completions}
    results = [[found[request.id] for request in members] for members in requests]
    groups = [group.after(members) for group, members in zip(groups, results, strict=True)]
    kept = [index for index, group in enumerate(groups) if group.complete][:wanted]
    remaining = [index for index in range(len(groups)) if index not in kept]
    if scheduling.partial:
        schedule.backlog.groups = [groups[index] for index in remaining]
    chosen = [completion for index in kept for completion in results[index]]
    metrics = schedule.learn(rollout.completions) | _metrics(chosen, [each for index in remaining for each in results[index]])
    metrics["carried_responses"] = float(schedule.backlog.begun)
    texts, rewards = scores.of(chosen)
    rollout = replace(rollout, completions=chosen)
    return Experience([prompts[index] for index in kept], rollout, texts, rewards, [*range(len(chosen))], time.time(), metrics)


def prompts_at(task: Task, positions: Sequence[int], count: int) -> list[Prompt]:
    """The prompts at these positions of all that the task gives, in steps of ``count``."""
    rounds = {step: task.prompts(step, count) for step in {position // count for position in positions}}
    return [rounds[position // count][position % count] for position in positions]


def _metrics(chosen: Sequence[Completion], remaining: Sequence[Completion]) -> dict[str, float]:
    current = max(completion.target_version for completion in chosen)
    older = sum(tokens for completion in chosen for version, tokens in completion.spans if version < current)
    return {
        "stopped_responses": float(sum(completion.finish == "abort" for completion in remaining)),
        "unused_tokens": float(sum(completion.fresh for completion in remaining)),
        "stale_share": older / sum(len(completion.tokens) for completion in chosen),
    }
