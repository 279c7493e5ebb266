import json
from pathlib import Path
from threading import Thread

import pytest
from models_for_tests import CHAT_TEMPLATE, byte_tokenizer
from tokenizer_calls import read_characters
from tokenizers import normalizers

from engine.config.task import MathConfig
from engine.errors import DataError
from engine.tasks.dataset_task import DatasetTask
from engine.tasks.math import MATH, expected
from engine.tasks.math_checker import Checker
from engine.tasks.task import Prompt

SAMPLE = Path(__file__).parents[2] / "data" / "gsm8k_sample.jsonl"
GSM8K = Path(__file__).parents[4] / "shared" / "data" / "gsm8k" / "test.jsonl"


@pytest.fixture(scope="module")
def task() -> DatasetTask:
    return DatasetTask(MathConfig(path=SAMPLE), MATH, 0, byte_tokenizer())


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker()


def small_task(tmp_path: Path, count: int, seed: int = 0) -> DatasetTask:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"question": f"q{index}", "answer": index}) + "\n" for index in range(count)))
    return DatasetTask(MathConfig(path=path), MATH, seed, byte_tokenizer())


def answers(prompts: list[Prompt]) -> list[str]:
    return [prompt.data for prompt in prompts]


def test_prompt_is_the_filled_template(task: DatasetTask) -> None:
    prompt = task.prompts(0, 1)[0]
    assert prompt.text.endswith("\nReason step by step and put the final answer in \\boxed{}.\n")
    assert byte_tokenizer().decode(list(prompt.tokens)) == prompt.text


def test_chat_template_is_applied() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    prompt = DatasetTask(MathConfig(path=SAMPLE, prompt="{question}?"), MATH, 0, tokenizer).prompts(0, 1)[0]
    assert prompt.text.startswith("<user>")
    assert prompt.text.endswith("?<assistant>")
    assert tokenizer.decode(list(prompt.tokens)) == prompt.text


def test_step_is_the_cursor_and_every_epoch_has_its_own_order(tmp_path: Path) -> None:
    task = small_task(tmp_path, 10)
    epochs = [[answer for step in range(5 * epoch, 5 * epoch + 5) for answer in answers(task.prompts(step, 2))] for epoch in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(answers(task.prompts(0, 10)))
    assert epochs[0] != epochs[1]
    assert task.prompts(7, 2) == small_task(tmp_path, 10).prompts(7, 2)
    assert answers(task.prompts(0, 10)) != answers(small_task(tmp_path, 10, seed=1).prompts(0, 10))


def test_step_may_be_larger_than_the_dataset(tmp_path: Path) -> None:
    prompts = small_task(tmp_path, 3).prompts(0, 8)
    assert len(prompts) == 8
    assert len(set(answers(prompts[:3]))) == len(set(answers(prompts[3:6]))) == 3


def test_too_long_prompt_names_row_tokens_and_limit(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"question": "x" * length, "answer": 1}) + "\n" for length in (5, 20, 10, 30)))
    task = DatasetTask(MathConfig(path=path, prompt="{question}"), MATH, 0, byte_tokenizer())
    task.check_lengths(30)
    with pytest.raises(
        DataError,
        match=r"data\.jsonl: line 2: the prompt has 20 tokens, more than rollout\.max_prompt_tokens=12; 2 of 4 prompts are too long, "
        r"the longest has 30 tokens",
    ):
        task.check_lengths(12)


def test_a_prompt_that_is_far_too_long_is_not_tokenised_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 MB took a minute."""
    path, read = tmp_path / "data.jsonl", read_characters(monkeypatch)
    path.write_text("".join(json.dumps({"question": "x" * length, "answer": 1}) + "\n" for length in (5, 100_000)))
    task = DatasetTask(MathConfig(path=path, prompt="{question}"), MATH, 0, byte_tokenizer())
    with pytest.raises(
        DataError, match=r"line 2: the prompt has 768 or more tokens, .*; 1 of 2 prompts are too long, the longest has 768 or more tokens"
    ):
        task.check_lengths(12)
    assert max(read) < 1000


def test_a_prompt_of_no_token_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"question": question, "answer": 1}) + "\n" for question in ("1", "\u200b")))
    stripping = byte_tokenizer()
    stripping.backend_tokenizer.normalizer = normalizers.Replace("\u200b", "")
    task = DatasetTask(MathConfig(path=path, prompt="{question}"), MATH, 0, stripping)
    with pytest.raises(DataError, match="line 2: the model's tokenizer makes no token of the prompt; remove it"):
        task.check_lengths(12)


@pytest.mark.parametrize(
    ("answer", "response", "equal"),
    [
        ("so 40 + 2 = 42\n#### 42", "It is \\boxed{42}.", True),
        ("#### 1,450,000", "\\boxed{1450000}", True),
        ("#### 42", "\\boxed{41} is what I thought first. It is \\boxed{42}.", True),
        ("#### 42", "\\boxed{42} is what I thought first. It is \\boxed{41}.", False),
        ("#### -3", "The answer is -3.", True),
        ("#### 3", "The answer is -3.", False),
        ("0.5", "\\boxed{\\frac{1}{2}}", True),
        ("\\frac{3}{4}", "$\\frac{3}{4}$", True),
        ("$x^2+1$", "\\boxed{1+x^2}", True),
        ("\\boxed{7}", "7", True),
        ("18", "", False),
        ("#### ", "anything", False),
    ],
)
def test_answers(checker: Checker, answer: str, response: str, equal: bool) -> None:
    assert checker.equal(expected(answer), response) is equal


@pytest.mark.parametrize(
    "garbage",
    ["\ud800 \x00 \\boxed{\\frac{}{}}", "\\boxed{" * 3000 + "42", "(" * 20_000, "9" * 20_000, "\\boxed{1/0}", "\n\r\x1c\u2028\x85"],
)
def test_garbage_is_wrong_and_does_not_raise(checker: Checker, garbage: str) -> None:
    assert checker.equal("\\boxed{42}", garbage) is False
    assert checker.equal("\\boxed{42}", "42") is True


def test_endless_computation_is_stopped_and_the_next_answer_is_checked(checker: Checker) -> None:
    assert checker.equal("\\boxed{42}", "\\boxed{9^{9^{9^{9}}}}") is False
    assert checker.equal("\\boxed{42}", "\\boxed{42}") is True


def test_rewards_in_threads(task: DatasetTask) -> None:
    prompts = task.prompts(0, 8)
    rewards: dict[int, tuple[float, float]] = {}

    def score(index: int) -> None:
        rewards[index] = task.reward(prompts[index], prompts[index].data), task.reward(prompts[index], "\\boxed{-1}")

    threads = [Thread(target=score, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rewards == dict.fromkeys(range(8), (1.0, 0.0))


@pytest.mark.skipif(not GSM8K.is_file(), reason="GSM8K is not beside the checkout")
def test_whole_gsm8k() -> None:
    task = DatasetTask(MathConfig(path=GSM8K), MATH, 0, byte_tokenizer())
    prompts = task.prompts(0, 1319)
    assert len({prompt.text for prompt in prompts}) == 1319
    assert all(task.reward(prompt, f"So it is {prompt.data}.") == 1.0 for prompt in prompts[:100])
    with pytest.raises(DataError, match=r"rollout\.max_prompt_tokens=256"):
        task.check_lengths(256)
    task.check_lengths(1200)


def test_rows_kept_for_validation_are_the_same_in_every_run_and_never_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"question": f"q{index}", "answer": index}) + "\n" for index in range(20)))
    config = MathConfig(path=path, validation_share=0.25)
    one, other = (DatasetTask(config, MATH, seed, byte_tokenizer()) for seed in (0, 1))
    held_out = answers(one.validation(100))
    assert held_out == answers(other.validation(100))
    assert len(held_out) == 5
    assert len(one.validation(3)) == 3
    assert set(answers(one.prompts(0, 15))) | set(held_out) == {expected(str(index)) for index in range(20)}


def test_all_rows_of_a_prompt_are_on_one_side(tmp_path: Path) -> None:
    """Whatever the order of the file is, and with other answers too."""
    sides = []
    for order in (1, -1):
        path = tmp_path / f"{order}.jsonl"
        rows = [json.dumps({"question": f"q{index % 10}", "answer": index}) + "\n" for index in range(40)]
        path.write_text("".join(rows[::order]))
        task = DatasetTask(MathConfig(path=path, validation_share=0.25), MATH, 0, byte_tokenizer())
        held_out = [prompt.text for prompt in task.validation(100)]
        assert len(held_out) == 12, "whole prompts, for a quarter at least"
        trained = {prompt.text for prompt in task.prompts(0, 28)}
        assert len(trained) == 7
        assert trained.isdisjoint(held_out)
        sides.append(trained)
    assert sides[0] == sides[1]


def test_validation_from_another_file(tmp_path: Path) -> None:
    for name, count in (("train", 4), ("valid", 2)):
        rows = (json.dumps({"question": f"{name} {index}", "answer": index}) + "\n" for index in range(count))
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    config = MathConfig(path=tmp_path / "train.jsonl", validation_path=tmp_path / "valid.jsonl", prompt="{question}")
    task = DatasetTask(config, MATH, 0, byte_tokenizer())
    assert [prompt.text for prompt in task.validation(9)] == ["valid 0", "valid 1"]
    assert {prompt.text for prompt in task.prompts(0, 4)} == {f"train {index}" for index in range(4)}
    with pytest.raises(ValueError, match="not both"):
        MathConfig(path=tmp_path / "train.jsonl", validation_path=tmp_path / "valid.jsonl", validation_share=0.1)
