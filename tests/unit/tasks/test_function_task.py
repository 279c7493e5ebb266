import json
import sys
from pathlib import Path

import pytest
from models_for_tests import byte_tokenizer

from engine.config.task import FunctionConfig
from engine.errors import ConfigError, DataError
from engine.tasks.registry import build_task

CODE = """
def length(row, response):
    return len(response) - row["wanted"]

def picky(row, response):
    return float(response)

def nothing(row, response):
    return float("nan")
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_rewards.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_rewards", raising=False)
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"question": "Write", "wanted": 3}) + "\n")
    return path


def test_the_users_function_scores(data: Path) -> None:
    task = build_task(FunctionConfig(path=data, function="own_rewards:length"), 0, byte_tokenizer())
    assert task.reward(task.prompts(0, 1)[0], "12345") == 2.0


def test_a_reward_that_is_no_number_is_refused(data: Path) -> None:
    task = build_task(FunctionConfig(path=data, function="own_rewards:nothing"), 0, byte_tokenizer())
    with pytest.raises(DataError, match="own_rewards:nothing gave nan for the response 'abc'"):
        task.reward(task.prompts(0, 1)[0], "abc")


def test_a_function_that_raises_is_named(data: Path) -> None:
    task = build_task(FunctionConfig(path=data, function="own_rewards:picky"), 0, byte_tokenizer())
    with pytest.raises(DataError, match=r"own_rewards:picky raised ValueError\(.*\) for the response 'abc'; it must give a number"):
        task.reward(task.prompts(0, 1)[0], "abc")


def test_a_function_that_is_not_there(data: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.function: own_rewards:missing cannot be imported"):
        build_task(FunctionConfig(path=data, function="own_rewards:missing"), 0, byte_tokenizer())


def test_a_module_that_cannot_be_read_is_named(data: Path) -> None:
    (data.parent / "own_mistake.py").write_text("def reward(row, response)\n    return 1.0\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"own_mistake:reward cannot be imported, as own_mistake raises SyntaxError\(.*\); mend it"):
        build_task(FunctionConfig(path=data, function="own_mistake:reward"), 0, byte_tokenizer())
