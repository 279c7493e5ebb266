from random import Random

import pytest
from models_for_tests import byte_tokenizer

from engine.config.task import CountdownConfig, MathConfig
from engine.errors import DataError
from engine.models.tiny import character_tokenizer
from engine.tasks.countdown import LONGEST, CountdownTask, Problem, generate, reward
from engine.tasks.registry import build_task
from engine.tasks.task import Task
from engine.warmstart.search_traces import GIVE_UP, trace

PROBLEM = Problem((3, 7, 25), 29)


@pytest.fixture(scope="module")
def task() -> Task:
    return build_task(CountdownConfig(), 0, character_tokenizer())


def test_prompts_depend_on_seed_and_step_only(task: Task) -> None:
    again, other = (build_task(CountdownConfig(), seed, character_tokenizer()) for seed in (0, 1))
    assert task.prompts(3, 8) == again.prompts(3, 8)
    assert task.prompts(3, 8) != task.prompts(4, 8)
    assert task.prompts(3, 8) != other.prompts(3, 8)


def test_prompt_has_text_tokens_and_problem(task: Task) -> None:
    prompt = task.prompts(0, 1)[0]
    assert prompt.text == prompt.data.prompt
    assert character_tokenizer().decode(list(prompt.tokens)) == prompt.text


def test_share_of_hard_problems() -> None:
    for share in (0.0, 1.0):
        prompts = CountdownTask(CountdownConfig(four_numbers=share), 0, byte_tokenizer()).prompts(0, 50)
        assert {len(prompt.data.numbers) for prompt in prompts} == {4 if share else 3}


def test_no_prompt_is_longer_than_the_longest() -> None:
    rng = Random(0)
    assert max(len(generate(rng, 1.0).prompt) for _ in range(500)) <= len(LONGEST.prompt)


def test_limit_on_the_prompt(task: Task) -> None:
    task.check_lengths(15)
    with pytest.raises(DataError, match=r"a countdown prompt has up to 15 tokens, more than rollout\.max_prompt_tokens=14"):
        task.check_lengths(14)


def test_search_traces_are_rewarded(task: Task) -> None:
    rng = Random(0)
    for prompt in task.prompts(0, 20):
        solution = trace(prompt.data, rng, 100_000)
        assert solution is not None
        assert task.reward(prompt, solution) == float(not solution.endswith(GIVE_UP))
        assert task.reward(prompt, solution.replace("!", "x")) == 0.0


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("25+7=32,32-3=29!", 1.0),
        ("7+3=10,25+10=35x\n25+7=32,32-3=29!\n", 1.0),
        ("25+7=32,32-3=28!", 0.0),
        ("25+7=33,33-3=30!", 0.0),
        ("25+4=29!", 0.0),
        ("25+7=32!", 0.0),
        ("25+7=32,32-3=29", 0.0),
        ("25+7=32,32-3=29!\n7+3=10x", 0.0),
        ("7-25=18,18+3=21!", 0.0),
        ("9" * 10_000 + "+7=32!", 0.0),
        ("\ud800\x00!", 0.0),
        ("", 0.0),
        ("!", 0.0),
    ],
)
def test_reward(response: str, value: float) -> None:
    assert reward(PROBLEM, response) == value


def test_registry_makes_a_math_task_for_a_math_config() -> None:
    with pytest.raises(DataError, match="no such file"):
        build_task(MathConfig(path="nothing.jsonl"), 0, byte_tokenizer())


def test_every_step_is_as_hard_as_the_others(task: Task) -> None:
    for step in range(20):
        hard = sum(len(prompt.data.numbers) == 4 for prompt in task.prompts(step, 10))
        assert hard == 2
    uneven = [sum(len(prompt.data.numbers) == 4 for prompt in task.prompts(step, 2)) for step in range(400)]
    assert set(uneven) <= {0, 1}
    assert sum(uneven) / 800 == pytest.approx(0.2, abs=0.05)
