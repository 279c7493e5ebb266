"""Steps whose responses are generated while earlier ones are learned from, by a clock that ticks once a token."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answering import SEED, Answering, Lengths

from engine.cluster.distributed_rollout.driver import Rollout
from engine.config import RunConfig, parse
from engine.errors import ConfigError
from engine.experience.asynchronous import gather_ahead
from engine.experience.collection import Experience
from engine.models.folder import TINY
from engine.models.load import load_tokenizer
from engine.rollout.interface import Completion, PartialResponse, Request, RolloutStatistics, Sampling

SIZE, WANTED = 2, 3


class Clocked(Answering):
    """Each response that is begun gets a token a tick, by the policy of that time. A prompt says how many it wants."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.version = 0
        self._ahead: list[Completion] = []

    def rollout(
        self,
        step: int,
        requests: Sequence[Request],
        sampling: Sampling,  # noqa: ARG002
        on_share: Callable[[Sequence[Completion]], None],
        expected: Sequence[float] | None,  # noqa: ARG002
        quota: int | None = None,
        ahead: Sequence[Request] = (),
    ) -> Rollout:
        assert (step, quota) == (self.version, None)
        self.asked.append([*requests, *ahead])
        ticks = max((request.prompt[0] - len(request.begun.tokens) for request in requests), default=0)
        completions = [self._after(request, ticks) for request in requests]
        self._ahead = [self._after(request, ticks) for request in ahead]
        on_share(completions)
        return Rollout(completions, RolloutStatistics(), (), {}, 0.0, 0.0)

    def answers(self, step: int, requests: Sequence[Request], quota: int | None) -> list[Completion]:
        raise NotImplementedError

    def learn(self, ticks: int) -> None:
        """An update that takes so long."""
        self._ahead = [each if each.finish == "stop" else self._after(_so_far(each), ticks) for each in self._ahead]
        requests = {request.id: request for request in self.asked[-1]}
        self.schedule.backlog.update([replace(each, request=requests[each.request.id]) for each in self._ahead])
        self.version += 1

    def _after(self, request: Request, ticks: int) -> Completion:
        begun, wanted = request.begun, request.prompt[0]
        new = min(ticks, wanted - len(begun.tokens))
        finish: Any = "stop" if len(begun.tokens) + new == wanted else "abort"
        logprobs = begun.logprobs + (-0.5 - self.version,) * new
        return Completion(request, begun.tokens + (request.id,) * new, logprobs, finish, self.version, 0)


def _so_far(completion: Completion) -> Request:
    return replace(completion.request, begun=PartialResponse(completion.tokens, completion.logprobs, completion.spans))


class Steps:
    """One step after the other of a run whose updates take ``update`` ticks."""

    def __init__(self, wanted: dict[int, int], update: int = 2, steps: int = 100, **scheduling: Any) -> None:
        algorithm = {"steps": steps, "prompts_per_step": WANTED, "group_size": SIZE}
        self.config = parse({"seed": SEED, "algorithm": algorithm, "rollout": {"scheduling": {"asynchronous": True, **scheduling}}})
        self.workers = Clocked(self.config)
        self._task: Any = Lengths(wanted)
        self._tokenizer = load_tokenizer(Path(TINY))
        self._update = update

    def step(self) -> Experience:
        workers: Any = self.workers
        experience = gather_ahead(self.config, workers, self._task, self._tokenizer, self.workers.version)
        self.workers.learn(self._update)
        return experience


def lengths_of_many(steps: int) -> dict[int, int]:
    return {position: 1 + position * position % 17 for position in range(steps * WANTED)}


def spans(experience: Experience, prompt: int) -> tuple[tuple[int, int], ...]:
    return experience.rollout.completions[prompt * SIZE].spans


def test_the_first_step_is_the_policys_own_and_the_second_is_begun_beside_it() -> None:
    steps = Steps({0: 5, 3: 20, 4: 6})
    first = steps.step()
    assert [request.id for request in steps.workers.asked[0]] == list(range(2 * WANTED * SIZE))
    assert first.scheduling == {"stale_share": 0, "staleness_mean": 0, "staleness_max": 0}
    second = steps.step()
    asked = {request.id // SIZE: len(request.begun.tokens) for request in steps.workers.asked[1]}
    assert asked == {3: 7, 6: 0, 7: 0, 8: 0}, "4 and 5 were finished while the first step was learned from"
    assert (spans(second, 0), spans(second, 1), spans(second, 2)) == (((0, 7), (1, 13)), ((0, 6),), ((0, 1),))
    assert second.scheduling == {"stale_share": 14 / 27, "staleness_mean": 14 / 27, "staleness_max": 1}


def test_each_token_has_the_log_prob_of_the_policy_that_wrote_it() -> None:
    """Which is what its importance weight is made of."""
    steps = Steps({0: 5, 3: 20})
    steps.step()
    assert steps.step().rollout.completions[0].logprobs == (-0.5,) * 7 + (-1.5,) * 13


@pytest.mark.parametrize("bound", [1, 2, 3])
@pytest.mark.parametrize("update", [0, 1, 50])
def test_whatever_takes_long_no_token_is_staler_than_the_bound(bound: int, update: int) -> None:
    steps = Steps(lengths_of_many(30), update, 30, max_staleness=bound)
    for version in range(30):
        found = steps.step()
        assert found.scheduling["staleness_max"] <= bound
        begun = {request.id // SIZE // WANTED for request in steps.workers.asked[-1]}
        assert max(begun, default=version) <= min(version + bound, 29)


def test_with_time_enough_all_is_as_stale_as_it_may_be() -> None:
    steps = Steps(lengths_of_many(12), update=50, steps=12, max_staleness=2)
    assert [steps.step().scheduling["staleness_mean"] for _ in range(12)] == [0, 1] + [2] * 10


@pytest.mark.parametrize("bound", [1, 3])
def test_every_response_is_learned_from_whole_once_and_in_the_step_of_a_synchronous_run(bound: int) -> None:
    wanted = lengths_of_many(20)
    steps = Steps(wanted, steps=20, max_staleness=bound)
    for step in range(20):
        experience = steps.step()
        assert [prompt.data for prompt in experience.prompts] == list(range(step * WANTED, (step + 1) * WANTED))
        completions = experience.rollout.completions
        assert [each.request.id for each in completions] == list(range(step * WANTED * SIZE, (step + 1) * WANTED * SIZE))
        assert [len(each.tokens) for each in completions] == [wanted[each.request.id // SIZE] for each in completions]
        assert experience.rewards == [float(each.request.id // SIZE) for each in completions]
        assert (experience.kept, experience.overlapping) == (list(range(WANTED * SIZE)), True)
    assert steps.workers.schedule.backlog.groups == []


def test_what_is_in_flight_at_a_checkpoint_is_gone_on_with() -> None:
    """As JSON has it: the run that is resumed is the one that nobody disturbed."""
    undisturbed, before, after = (Steps(lengths_of_many(9), steps=9, longest_first=True) for _ in range(3))
    expected = [undisturbed.step().rollout.completions for _ in range(9)]
    found = [before.step().rollout.completions for _ in range(4)]
    assert before.workers.schedule.backlog.begun > 0
    after.workers.schedule.load_state(json.loads(json.dumps(before.workers.schedule.state())))
    after.workers.version = 4
    assert found + [after.step().rollout.completions for _ in range(5)] == expected


def test_a_run_that_was_synchronous_before_goes_on_behind_what_it_had() -> None:
    steps = Steps({})
    steps.workers.version = 6
    assert [prompt.data for prompt in steps.step().prompts] == [18, 19, 20]
    assert [prompt.data for prompt in steps.step().prompts] == [21, 22, 23]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout": {"scheduling": {"asynchronous": True, "over_sampling": 2}}}, "over_sampling=2.0 stops responses"),
        ({"rollout": {"scheduling": {"asynchronous": True}}, "algorithm": {"refills": 1}}, "asynchronous=True and algorithm.refills=1"),
        (
            {"rollout": {"scheduling": {"asynchronous": True}}, "algorithm": {"rollout_correction": 0}},
            "algorithm.rollout_correction=0 does not correct; .* asynchronous to false",
        ),
        ({"rollout": {"scheduling": {"asynchronous": True, "max_staleness": 0}}}, "max_staleness: .* greater than or equal to 1"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(changes)
