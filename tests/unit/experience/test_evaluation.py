from itertools import combinations
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models_for_tests import byte_tokenizer

from engine.cluster.spot_training.drafter_versions import Published
from engine.config import RunConfig, parse
from engine.drafter.held_out_evaluation import Judged
from engine.drafter.training_report import TrainingReport
from engine.errors import ConfigError
from engine.experience.evaluation import evaluate, pass_at
from engine.rollout.interface import Answers, Completion
from engine.tasks.task import Prompt


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n), st.lists(st.integers(0, n), min_size=1, max_size=5))))
def test_pass_at_k_is_the_mean_over_all_choices_of_k(drawn: tuple[int, int, list[int]]) -> None:
    samples, k, right = drawn
    each = [fmean(any(choice) for choice in combinations([True] * count + [False] * (samples - count), k)) for count in right]
    assert pass_at(k, samples, right) == pytest.approx(fmean(each))


ALARM = ("acceptance_collapsed", "hardly a draft is accepted")


BACK = Published(7, True, "acceptance collapsed: version 5 again", TrainingReport(0, 0, 0.0, Judged(0.1), Judged(0.4), 0.0))


class Engines:
    """Answers the first request of each prompt with its prompt's text, and the others with nothing but a cut."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def heed(self, alarms: Any) -> Published | None:
        return BACK if alarms == [ALARM] else None

    def answer(self, requests: Any, sampling: Any) -> Answers:
        self.seeds.append(sampling.seed)
        completions = [
            Completion(request, request.prompt if request.id % 2 == 0 else (), (), "stop" if request.id % 2 == 0 else "length", 0, 0)
            for request in requests
        ]
        return Answers(completions, [ALARM])


class Echo:
    """Right is the prompt's own text, but of the second prompt nothing."""

    waits = False

    def validation(self, count: int) -> list[Prompt]:
        return [Prompt(text, tuple(byte_tokenizer()(text).input_ids), text) for text in ("ab", "cd", "ef")][:count]

    def reward(self, prompt: Prompt, response: str) -> float:
        return float(response == prompt.text != "cd")


def test_evaluation_counts_right_responses() -> None:
    config = RunConfig.model_validate({"evaluation": {"every": 1, "prompts": 2, "samples": 2}, "seed": 7})
    engines: Any = Engines()
    task: Any = Echo()
    found = evaluate(config, engines, task, byte_tokenizer())
    assert found.metrics == {
        "eval/reward": 0.25,
        "eval/pass_at_1": 0.25,
        "eval/pass_at_2": 0.5,
        "eval/response_tokens": 1.0,
        "eval/truncated_share": 0.5,
    }
    assert (found.alarms, found.rolled_back) == ([ALARM], BACK)
    assert engines.seeds != [7]
    assert evaluate(config, engines, task, byte_tokenizer()).metrics == found.metrics
    assert engines.seeds[0] == engines.seeds[1]


def test_a_dataset_without_validation_cannot_be_evaluated_on() -> None:
    with pytest.raises(ConfigError, match=r"evaluation\.every: no rows are kept for evaluation; give task\.validation_path or"):
        parse({"task": {"name": "math", "path": "x.jsonl"}, "evaluation": {"every": 5}})
    parse({"task": {"name": "math", "path": "x.jsonl", "validation_share": 0.1}, "evaluation": {"every": 5}})
