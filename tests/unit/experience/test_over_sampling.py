"""Steps that start more prompts than they need, with rollouts that answer at once."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from answering import SEED, Answering, Lengths

from engine.config import RunConfig, parse
from engine.errors import ConfigError
from engine.experience.collection import Experience
from engine.experience.over_sampling import gather_over_sampled
from engine.models.folder import TINY
from engine.models.load import load_tokenizer
from engine.rollout.interface import Completion, Request

SIZE, WANTED = 2, 4


class Answers(Answering):
    """Generates two tokens of each response at a time until the quota is reached. A prompt says how many it wants."""

    def answers(self, step: int, requests: Sequence[Request], quota: int | None) -> list[Completion]:
        assert quota is not None
        self.quota = quota
        for tokens in count(2, 2):
            completions = [self._answer(step, request, tokens) for request in requests]
            cut = {completion.request.group for completion in completions if completion.finish == "abort"}
            if len({request.group for request in requests} - cut) >= quota:
                break
        return completions

    @staticmethod
    def _answer(step: int, request: Request, tokens: int) -> Completion:
        wanted, begun = request.prompt[0], request.begun
        new = min(tokens, wanted - len(begun.tokens))
        done = len(begun.tokens) + new == wanted
        return Completion(request, begun.tokens + (request.id,) * new, begun.logprobs + (-0.5,) * new, "stop" if done else "abort", step, 0)


def config(**scheduling: Any) -> RunConfig:
    return parse(
        {
            "seed": SEED,
            "algorithm": {"prompts_per_step": WANTED, "group_size": SIZE},
            "rollout": {"scheduling": {"over_sampling": 1.5, **scheduling}},
        }
    )


class Steps:
    """One step after the other of a run of ``config``."""

    def __init__(self, wanted: dict[int, int], **scheduling: Any) -> None:
        self.config = config(**scheduling)
        self.workers = Answers(self.config)
        self._task: Any = Lengths(wanted)
        self._tokenizer = load_tokenizer(Path(TINY))
        self._step = 0

    def step(self) -> Experience:
        workers: Any = self.workers
        self._step += 1
        return gather_over_sampled(self.config, workers, self._task, self._tokenizer, self._step - 1)


def positions(experience: Experience) -> list[int]:
    return [prompt.data for prompt in experience.prompts]


def test_the_first_to_be_complete_are_learned_from_and_the_rest_is_lost() -> None:
    steps = Steps({0: 9, 3: 3})
    experience = steps.step()
    assert (len(steps.workers.asked[0]), steps.workers.quota) == (6 * SIZE, WANTED)
    assert positions(experience) == [1, 2, 4, 5]
    assert experience.rewards == [1, 1, 2, 2, 4, 4, 5, 5]
    assert experience.kept == list(range(8))
    assert [completion.request.id for completion in experience.rollout.completions] == [2, 3, 4, 5, 8, 9, 10, 11]
    assert experience.scheduling == {"stopped_responses": 4, "unused_tokens": 8, "stale_share": 0, "carried_responses": 0}
    assert positions(steps.step()) == [6, 7, 8, 9], "nothing of the first step comes back"


def test_with_partial_rollouts_what_was_stopped_comes_first_in_the_next_step() -> None:
    steps = Steps({0: 5, 3: 3}, partial=True)
    first = steps.step()
    assert positions(first) == [1, 2, 4, 5]
    assert first.scheduling["carried_responses"] == 4
    second = steps.step()
    assert positions(second) == [3, 6, 7, 8]
    assert [len(request.begun.tokens) for request in steps.workers.asked[1]] == [2] * 4 + [0] * 8
    assert second.scheduling["stale_share"] == 4 / 12
    third = steps.step()
    assert positions(third) == [0, 9, 10, 11]
    spans = [completion.spans for completion in third.rollout.completions[:SIZE]]
    assert spans == [((0, 2), (1, 2), (2, 1))] * SIZE
    assert third.scheduling["stale_share"] == (8 + 2) / 16


def test_what_is_complete_too_late_is_not_generated_again() -> None:
    """All six groups are done in the first step; the two that are left over count in the second."""
    steps = Steps({}, partial=True)
    assert positions(steps.step()) == [0, 1, 2, 3]
    experience = steps.step()
    assert positions(experience) == [4, 5, 6, 7]
    assert steps.workers.quota == 2
    assert [request.id // SIZE for request in steps.workers.asked[1]] == [6, 6, 7, 7, 8, 8, 9, 9]
    assert experience.scheduling["stale_share"] == 0.5


def test_every_prompt_is_learned_from_once_whatever_is_stopped() -> None:
    steps = Steps({position: 1 + position % 6 for position in range(400)}, partial=True, longest_first=True)
    seen = [position for _ in range(50) for position in positions(steps.step())]
    assert len(seen) == len(set(seen)) == 50 * WANTED
    late = set(range(max(seen))) - set(seen)
    assert late <= {group.position for group in steps.workers.schedule.backlog.groups}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout": {"scheduling": {"partial": True}}}, "with over_sampling=1 nothing is stopped"),
        ({"rollout": {"scheduling": {"over_sampling": 2}}, "algorithm": {"refills": 1}}, "exclude each other"),
        (
            {"rollout": {"scheduling": {"over_sampling": 2, "partial": True}}, "algorithm": {"rollout_correction": 0}},
            "algorithm.rollout_correction=0 does not correct",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(changes)
