"""One step's experience while the responses of the next steps are generated beside it, and beside the policy's update.

Every step learns from the prompts of a synchronous run, all of them, so that long responses count as often as short ones. What is bounded
is when a response begins (``staleness.begun_by``), as in AReaL (arXiv 2505.24298, section 5.1). New weights interrupt what is being
generated, which goes on with a cache of the new policy (there, section 4.1).
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig
from engine.experience.collection import Experience, Scores, sampling
from engine.experience.over_sampling import prompts_at
from engine.experience.staleness import begun_by, staleness
from engine.tasks.task import Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def gather_ahead(config: RunConfig, workers: WorkerGroup, task: Task, tokenizer: "PreTrainedTokenizerBase", step: int) -> Experience:
    """As ``engine.experience.collection.gather``. The workers go on with the groups of later steps, which wait in the schedule's backlog
    for what the next ``learn`` interrupts."""
    algorithm, schedule = config.algorithm, workers.schedule
    wanted = algorithm.prompts_per_step
    steps = begun_by(step, config.rollout.scheduling.ahead, algorithm.steps)
    groups = schedule.backlog.take_until(steps.start * wanted, steps.stop * wanted)
    prompts = prompts_at(task, [group.position for group in groups], wanted)
    pairs = [(group, index, prompt.tokens) for index, (group, prompt) in enumerate(zip(groups, prompts, strict=True))]
    open_ones = [request for group, index, prompt in pairs for request in group.open_requests(index, prompt)]
    now, ahead = ([request for request in open_ones if (request.group < wanted) is first] for first in (True, False))
    known = [completion for group, index, prompt in pairs[:wanted] for completion in group.completions(index, prompt)]
    schedule.backlog.groups = groups[wanted:]
    scores = Scores(task, tokenizer, prompts)
    with ThreadPoolExecutor(1) as scorer:  # what was finished before is judged while the rest is generated
        scored = scorer.submit(scores, known)
        rollout = workers.rollout(step, now, sampling(config), scores, schedule.expected(open_ones), ahead=ahead)
        scored.result()
    completions = sorted([*known, *rollout.completions], key=lambda completion: completion.request.id)
    texts, rewards = scores.of(completions)
    metrics = schedule.learn(completions) | staleness(completions, step)
    rollout = replace(rollout, completions=completions)
    return Experience(prompts[:wanted], rollout, texts, rewards, [*range(len(completions))], time.time(), metrics, overlapping=True)
