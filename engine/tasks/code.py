"""Programming: a response's code is right if it passes the row's tests in a sandbox."""

import re

from engine.config.task import CodeConfig
from engine.tasks.dataset_task import Question, Score, TaskKind
from engine.tasks.example import Example
from engine.tasks.sandbox import Sandbox

_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


def code_of(response: str) -> str:
    """The last fenced block; without one, all of the response."""
    blocks = _BLOCK.findall(response)
    return str(blocks[-1]) if blocks else response


def _read(config: CodeConfig, row: Example) -> Question:
    tests = row.columns.get(config.tests)
    several = row.texts(config.tests, 1, 1000) if isinstance(tests, list) else [row.text(config.tests)]
    return Question(row.text(config.question), several)


def _score(config: CodeConfig) -> Score:
    sandbox = Sandbox(config.seconds, config.megabytes, config.isolation)
    sandbox.check()

    def score(tests: list[str], response: str) -> float:
        code = code_of(response)
        if not config.partial:
            return float(sandbox.passes(code, "\n".join(tests)))
        return sum(sandbox.passes(code, test) for test in tests) / len(tests)

    return score


CODE: TaskKind[CodeConfig] = TaskKind(_read, _score, waits=True)
