"""Many responses' rewards."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from engine.tasks.task import Prompt, Task


def rewards_of(task: Task, prompts: Sequence[Prompt], responses: Sequence[str]) -> list[float]:
    """In order. Where a reward waits for a process of its own, as many at once as there are processors."""
    if not task.waits:
        return [task.reward(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(task.reward, prompts, responses))
