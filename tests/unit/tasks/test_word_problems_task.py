from random import Random

import pytest
from models_for_tests import CHAT_TEMPLATE, byte_tokenizer

from engine.config.task import WordProblemsConfig
from engine.errors import DataError
from engine.tasks.registry import build_task
from engine.tasks.task import Task
from engine.tasks.word_problem_patterns import ONE_STEP, TWO_STEPS, Pattern
from engine.tasks.word_problems import LEAST, Problem, WordProblemsTask, generate, results, reward

PROBLEM = Problem("Ida has 1240 nuts and gives 6 of them to Ben. How many nuts does Ida have left?", "", 1234)
EVERY_PATTERN = pytest.mark.parametrize("pattern", [*ONE_STEP, *TWO_STEPS], ids=lambda pattern: pattern.story)


@pytest.fixture(scope="module")
def task() -> Task:
    return build_task(WordProblemsConfig(), 0, byte_tokenizer())


def test_prompts_depend_on_seed_and_step_only(task: Task) -> None:
    again, other = (build_task(WordProblemsConfig(), seed, byte_tokenizer()) for seed in (0, 1))
    assert task.prompts(3, 8) == again.prompts(3, 8)
    assert task.prompts(3, 8) != task.prompts(4, 8)
    assert task.prompts(3, 8) != other.prompts(3, 8)
    assert task.validation(8) == other.validation(8)


def test_problems_differ(task: Task) -> None:
    prompts = task.prompts(0, 400)
    assert len({prompt.data.text for prompt in prompts}) > 350
    assert len({prompt.data.answer for prompt in prompts}) == 11


def test_without_a_chat_template_a_prompt_is_lines(task: Task) -> None:
    prompt = task.prompts(0, 1)[0]
    example, solution, question = prompt.text.splitlines()
    assert example.endswith("?")
    assert "The answer is" in solution
    assert question == prompt.data.text
    assert byte_tokenizer().decode(list(prompt.tokens)) == prompt.text


def test_with_one_solved_problems_are_turns_of_the_conversation() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    for count in (0, 3):
        prompt = WordProblemsTask(WordProblemsConfig(examples=count), 0, tokenizer).prompts(0, 1)[0]
        assert prompt.text.count("<user>") == prompt.text.count("<assistant>") == count + 1
        assert prompt.text.endswith(f"<user>{prompt.data.text}<assistant>")
        assert tokenizer.decode(list(prompt.tokens)) == prompt.text


@EVERY_PATTERN
@pytest.mark.parametrize("largest", [10, 12, 1000])
def test_every_pattern_makes_problems_within_the_limit(pattern: Pattern, largest: int) -> None:
    rng = Random(0)
    for problem, next_one in [generate(rng, pattern, largest, 2) for _ in range(20)]:
        assert "{" not in problem.text
        assert LEAST <= problem.answer <= largest
        assert max(int(word) for word in problem.solution.replace(".", "").split() if word.isdecimal()) <= largest
        assert problem.solution.count("=") == len(pattern.operators)
        assert problem.solution.split("The answer")[0] != next_one.solution.split("The answer")[0]


@EVERY_PATTERN
def test_a_solution_is_rewarded_and_that_of_another_answer_is_not(pattern: Pattern) -> None:
    problem = generate(Random(1), pattern, 50, 1)[0]
    assert reward(problem, problem.solution) == 1.0
    assert reward(problem, problem.solution.removesuffix(f"{problem.answer}.") + f"{problem.answer + 1}.") == 0.0


@pytest.mark.parametrize(
    ("operators", "numbers", "expected"),
    [
        ("+", (3, 4), [7]),
        ("-+", (9, 4, 2), [5, 7]),
        ("*/", (3, 4, 6), [12, 2]),
        ("/", (7, 2), None),
        ("-", (4, 4), None),
        ("*", (5, 5), None),
        ("*-", (5, 5, 9), None),
    ],
)
def test_results_from_left_to_right(operators: str, numbers: tuple[int, ...], expected: list[int] | None) -> None:
    assert results(operators, numbers, 20) == expected


def test_every_step_is_as_hard_as_the_others() -> None:
    task = build_task(WordProblemsConfig(two_steps=0.3), 0, byte_tokenizer())
    for step in range(20):
        assert sum(prompt.text.splitlines()[1].count("=") == 2 for prompt in task.prompts(step, 10)) == 3
    uneven = [sum(prompt.text.splitlines()[1].count("=") == 2 for prompt in task.prompts(step, 2)) for step in range(400)]
    assert sum(uneven) / 800 == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("config", [WordProblemsConfig(), WordProblemsConfig(largest=500, two_steps=0.5, examples=2)])
def test_limit_on_the_prompt(config: WordProblemsConfig) -> None:
    task = build_task(config, 0, byte_tokenizer())
    longest = max(len(prompt.tokens) for prompt in task.prompts(0, 1000))
    with pytest.raises(DataError, match=rf"a prompt of word_problems has up to \d+ tokens, more than .*={longest - 1}; raise it"):
        task.check_lengths(longest - 1)
    task.check_lengths(longest + 40)


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("1240 - 6 = 1234. The answer is 1234.", 1.0),
        ("So Ida has 1,234 nuts left", 1.0),
        ("**1234**", 1.0),
        ("$1,234.00.", 1.0),
        ("\\boxed{1234}", 1.0),
        ("1240-6=1234", 1.0),
        ("1234!\n\n", 1.0),
        ("x = 1234.0", 1.0),
        ("1234 of 1240", 0.0),
        ("So the answer is...1234", 1.0),
        ("-1234", 0.0),
        ("\u22121234", 0.0),
        ("1240 \u2212 6 = 1234", 1.0),
        ("0.1234", 0.0),
        ("about .1234", 0.0),
        ("1234.5", 0.0),
        ("1,2345", 0.0),
        ("12341", 0.0),
        ("1e1234", 0.0),
        ("1234e2", 0.0),
        ("1234E+2", 0.0),
        ("1,234e5", 0.0),
        ("12.1234e1", 0.0),
        ("x1234", 0.0),
        ("1234kg", 1.0),
        ("1234 eggs", 1.0),
        ("one thousand", 0.0),
        ("", 0.0),
        ("9" * 10_000, 0.0),
        ("1," * 10_000, 0.0),
        ("١٢٣٤", 0.0),
        ("\ud800\x00", 0.0),
    ],
)
def test_reward(response: str, value: float) -> None:
    assert reward(PROBLEM, response) == value
