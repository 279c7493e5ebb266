"""What a tab of the run page is: a name, the data that it draws, and a function that draws it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dashboard.analysis.run_config import speculates
from dashboard.data.run_data import DataQuery, RunData
from longtail.schemas.runs import Run


def engine_run(run: Run) -> bool:
    """Whether our engine carries the run out."""
    return run.kind != "tracked"


def training_run(run: Run) -> bool:
    """Whether it has steps that our engine carries out."""
    return engine_run(run) and not run.trains_drafter_only


def speculating_run(run: Run) -> bool:
    return training_run(run) and speculates(run.config)


class MetricChart(NamedTuple):
    """``help`` says what is measured, and what is healthy."""

    key: str
    title: str
    y: str
    help: str


ENTROPY = MetricChart(
    "entropy", "Entropy", "entropy (nats a token)", "It falls slowly as the policy gets surer. Near 0 nothing new is tried."
)
KL = MetricChart("kl", "KL", "KL to the start policy (nats)", "How far the policy has come. A slow rise is healthy, a jump is not.")
NOTHING = DataQuery()


@dataclass(frozen=True)
class Tab:
    """Only the open tab of a page is fetched and drawn; ``fits`` tells which runs have it."""

    name: str
    show: Callable[[RunData], None]
    query: DataQuery = NOTHING
    fits: Callable[[Run], bool] = lambda _: True
