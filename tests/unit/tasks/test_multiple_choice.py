import json
from pathlib import Path
from typing import Any

import pytest
from models_for_tests import byte_tokenizer

from engine.config.task import ChoiceConfig
from engine.errors import DataError
from engine.tasks.multiple_choice import chosen
from engine.tasks.registry import build_task, check_rows
from engine.tasks.task import Prompt, Task

ROW = {"question": "Which is even?", "choices": ["one", "two", "three"], "answer": "B"}


def written(tmp_path: Path, *rows: dict[str, Any]) -> ChoiceConfig:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ChoiceConfig(path=path)


def built(tmp_path: Path, *rows: dict[str, Any]) -> tuple[Task, Prompt]:
    task = build_task(written(tmp_path, *rows), 0, byte_tokenizer())
    return task, task.prompts(0, 1)[0]


def test_the_prompt_lists_the_choices(tmp_path: Path) -> None:
    _, prompt = built(tmp_path, ROW)
    assert prompt.text.startswith("Which is even?\nA. one\nB. two\nC. three\n")


@pytest.mark.parametrize("answer", ["B", "b", 1, "1", "two"])
def test_the_right_one_by_letter_place_or_text(tmp_path: Path, answer: Any) -> None:
    task, prompt = built(tmp_path, ROW | {"answer": answer})
    assert task.reward(prompt, "\\boxed{B}") == 1.0
    assert task.reward(prompt, "\\boxed{A}") == 0.0


def test_a_text_among_the_choices_counts_before_its_look_as_letter_or_place(tmp_path: Path) -> None:
    task, prompt = built(tmp_path, ROW | {"choices": ["0", "2", "1"], "answer": "1"})
    assert task.reward(prompt, "C") == 1.0
    task, prompt = built(tmp_path, ROW | {"choices": ["B", "A"], "answer": "A"})
    assert task.reward(prompt, "B") == 1.0


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("First \\boxed{A}, no: \\boxed{ (c) }", "C"),
        ("\\boxed{\\text{B}}", "B"),
        ("A is wrong, so the answer is B.", "B"),
        ("Answer: **D**", "D"),
        ("answer: a", "A"),
        ("(B)", "B"),
        (" b.\n", "B"),
        ("I think so", None),
        ("Another answer is possible", None),
        ("", None),
        ("\\boxed{12}", None),
    ],
)
def test_the_letter_that_a_response_settles_on(response: str, letter: str | None) -> None:
    assert chosen(response) == letter


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "D"}, "column 'answer' is 'D': no letter, place or text of its 3 choices"),
        ({"answer": 3}, "column 'answer' is '3': no letter, place or text"),
        ({"choices": ["one"]}, "column 'choices' must be a list of 2 to 26 texts, got a list"),
        ({"choices": "one, two"}, "column 'choices' must be a list of 2 to 26 texts, got the value 'one, two'"),
        ({"choices": ["one", None]}, "column 'choices' must be a list of 2 to 26 texts"),
    ],
)
def test_faults_name_the_row(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"data.jsonl: line 2: {message}"):
        check_rows(written(tmp_path, ROW, ROW | change))
