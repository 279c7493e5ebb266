"""Gathering a step's responses, with rollouts that answer at once."""

from collections.abc import Container, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answering import SEED, Answering

from engine.cluster.spot_training.trained_session import TrainedSession
from engine.config import RunConfig
from engine.drafter.held_out_evaluation import Judged
from engine.drafter.training_report import TrainingReport
from engine.experience.collection import Experience, gather
from engine.models.folder import TINY
from engine.models.load import load_tokenizer
from engine.rollout.interface import Completion, Request
from engine.tasks.task import Prompt


class Answers(Answering):
    """Responses are the request's own number, so that the task's rewards decide everything. Each rollout has trained the drafter."""

    def answers(self, step: int, requests: Sequence[Request], quota: int | None) -> list[Completion]:
        assert quota is None
        return [Completion(request, (request.id % 7 + 1,), (-1.0,), "stop", step, 0) for request in requests]

    def sessions(self, now: float) -> dict[int, TrainedSession]:
        return {0: TrainedSession(TrainingReport(10, 100, now, Judged(0.1 * now), Judged(0.1 * now + 0.05), 0.0), now)}


class Numbers:
    """Prompts are numbers; a group has different rewards if its (index of the rollout, place in it) is in ``teaching``."""

    waits = False

    def __init__(self, teaching: Container[tuple[int, int]]) -> None:
        self._teaching = teaching
        self._calls = 0

    def prompts(self, step: int, count: int) -> list[Prompt]:
        return [Prompt(f"{step}:{place}", (1,), (step, place)) for place in range(count)]

    def reward(self, prompt: Prompt, response: str) -> float:  # noqa: ARG002
        self._calls += 1
        return float(self._calls % 2) if prompt.data in self._teaching else 1.0


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_tokenizer(Path(TINY))


def gathered(tokenizer: Any, refills: int, teaching: Container[tuple[int, int]], step: int = 0) -> tuple[Experience, Answers]:
    config = RunConfig.model_validate({"seed": SEED, "algorithm": {"prompts_per_step": 4, "group_size": 2, "refills": refills}})
    workers: Any = Answers(config)
    return gather(config, workers, Numbers(teaching), tokenizer, step), workers  # type: ignore[arg-type]


def test_without_refills_every_group_is_kept(tokenizer: Any) -> None:
    experience, workers = gathered(tokenizer, 0, ())
    assert len(workers.asked) == 1
    assert experience.kept == list(range(8))
    assert len(experience.responses) == len(experience.rewards) == 8


def test_refills_go_on_until_enough_groups_teach_something(tokenizer: Any) -> None:
    """Two groups of each round do; four are wanted."""
    experience, workers = gathered(tokenizer, 3, {(index, place) for index in (20, 21) for place in (0, 1)}, step=5)
    assert [prompt.data[0] for prompt in experience.prompts[::4]] == [20, 21]
    assert experience.kept == [0, 1, 2, 3, 8, 9, 10, 11]
    assert len(experience.rollout.completions) == 16
    assert [request.group for request in workers.asked[1]] == [4, 4, 5, 5, 6, 6, 7, 7]


def test_no_more_than_wanted_are_kept(tokenizer: Any) -> None:
    experience, _ = gathered(tokenizer, 3, {(index, place) for index in range(4) for place in range(3)})
    assert experience.kept == [0, 1, 2, 3, 4, 5, 8, 9]


def test_refills_end_where_they_may_not_go_on(tokenizer: Any) -> None:
    experience, workers = gathered(tokenizer, 2, {(2, 3)})
    assert len(workers.asked) == 3
    assert experience.kept == [22, 23]


def test_a_step_in_which_nothing_teaches_still_is_one(tokenizer: Any) -> None:
    experience, _ = gathered(tokenizer, 1, ())
    assert experience.kept == list(range(8))


def test_requests_never_share_an_id_over_steps_and_rounds(tokenizer: Any) -> None:
    asked = [request.id for step in range(3) for share in gathered(tokenizer, 2, (), step)[1].asked for request in share]
    assert len(set(asked)) == len(asked) == 3 * 3 * 8


def test_rollouts_of_a_step_count_as_one(tokenizer: Any) -> None:
    experience, _ = gathered(tokenizer, 1, ())
    rollout = experience.rollout
    assert rollout.statistics.tokens == 16
    assert [span.start for span in rollout.spans] == [1.0, 2.0]
    assert rollout.ended == 2.0
    report = rollout.sessions[0].report
    assert SimpleNamespace(**vars(report)) == SimpleNamespace(
        microsteps=20, tokens=200, loss=1.5, before=Judged(0.1), after=Judged(0.25), mix_distance=0.0, noise=0.0
    )
