"""What can be set of a task."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from engine.config.import_path import ImportPath
from engine.config.section import HostPath, Section

PROMPT = "Prompt template; {question} is replaced. A chat template of the tokenizer is applied if it has one"


class CountdownConfig(Section):
    """Reach a target number; generated with the run's seed."""

    name: Literal["countdown"] = "countdown"
    four_numbers: float = Field(0.2, ge=0, le=1, description="Share of hard problems (four numbers instead of three)")


class WordProblemsConfig(Section):
    """Everyday arithmetic, for small models that follow instructions; generated with the run's seed."""

    name: Literal["word_problems"] = "word_problems"
    largest: int = Field(12, ge=10, le=1000, description="Largest number in a problem, its answer included")
    two_steps: float = Field(0.0, ge=0, le=1, description="Share of hard problems (two steps instead of one)")
    examples: int = Field(1, ge=0, le=4, description="Solved problems of the same kind before each: more of them make it easier")


class DatasetConfig(Section):
    """Questions from a JSONL or parquet file."""

    path: HostPath = Field(description="JSONL or parquet file on the machine that runs the job")
    question: str = Field("question", description="Column that holds the question")
    validation_path: HostPath | None = Field(None, description="Another such file, for evaluation only")
    validation_share: float = Field(0.0, ge=0, lt=1, description="Or: share of the rows kept for evaluation, by their prompts")
    prompt: str = Field("{question}\n", description=PROMPT)

    @field_validator("prompt")
    @classmethod
    def _fits(cls, template: str) -> str:
        if "{question}" not in template:
            raise ValueError("the prompt template must contain {question}")
        try:
            template.format(question="")
        except (LookupError, ValueError, AttributeError):
            raise ValueError("the prompt template may name {question} only; write other braces twice, as in \\boxed{{}}") from None
        return template

    @model_validator(mode="after")
    def _one_validation(self) -> "DatasetConfig":
        if self.validation_path and self.validation_share:
            raise ValueError("give validation_path or validation_share, not both")
        return self


class MathConfig(DatasetConfig):
    """Maths questions, checked by math-verify."""

    name: Literal["math"] = "math"
    answer: str = Field("answer", description="Column that holds the answer; for GSM8K the part after #### counts")
    prompt: str = Field("{question}\nReason step by step and put the final answer in \\boxed{{}}.\n", description=PROMPT)


class ChoiceConfig(DatasetConfig):
    """Questions with given answers, one of which is right. They are added to the question, a line each: ``A. ...``"""

    name: Literal["choice"] = "choice"
    choices: str = Field("choices", description="Column that holds the list of 2 to 26 answers")
    answer: str = Field("answer", description="Column that holds the right one: its letter, its place from 0, or its text")
    prompt: str = Field("{question}\nReason step by step and put the letter of the right answer in \\boxed{{}}.\n", description=PROMPT)


class PromptsConfig(DatasetConfig):
    """Prompts alone, without rewards: to train a drafter on what the model writes to them."""

    name: Literal["prompts"] = "prompts"
    prompt: str = Field("{question}", description=PROMPT)


class FunctionConfig(DatasetConfig):
    """Any rows, scored by a function of your own: ``function(row, response) -> float``, ``row`` a dictionary of the columns."""

    name: Literal["function"] = "function"
    function: ImportPath = Field(description="package.module:function, importable where the job runs; called from several threads")


class CodeConfig(DatasetConfig):
    """Programming in Python: the last fenced block of a response is called by the row's tests, in a sandbox. Only plain values pass."""

    name: Literal["code"] = "code"
    tests: str = Field(
        "tests",
        description="Column that holds the tests: Python text, or a list of such, that fails by an exception",
    )
    partial: bool = Field(False, description="Reward the share of the list's tests that pass, instead of all or nothing")
    seconds: float = Field(5.0, gt=0, le=600, description="For one program")
    megabytes: int = Field(512, ge=64, le=65_536, description="Memory of one program")
    isolation: Literal["namespaces", "limits"] = Field(
        "namespaces",
        description="namespaces: by bubblewrap, without network, files and other processes; limits: time and memory only",
    )
    prompt: str = Field("{question}\nWrite the program in a ```python block.\n", description=PROMPT)


GENERATED: dict[str, type[CountdownConfig | WordProblemsConfig]] = {"countdown": CountdownConfig, "word_problems": WordProblemsConfig}
"""Those that need no data."""
TaskConfig = Annotated[
    CountdownConfig | WordProblemsConfig | MathConfig | ChoiceConfig | CodeConfig | FunctionConfig | PromptsConfig,
    Field(discriminator="name"),
]
