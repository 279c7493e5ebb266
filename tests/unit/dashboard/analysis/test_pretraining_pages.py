"""Runs that train a drafter before their first step, as the pages tell of them."""

from typing import Any

import pytest
from example_runs import NOW, run

from backend.demo_data import telemetry
from backend.models.baseline import likeness
from dashboard.analysis.drafter_lineage import ancestors, first_version, origin, pretrained
from dashboard.analysis.pretraining_questions import from_what, how_far, how_good
from dashboard.analysis.run_config import plain_baseline
from dashboard.charts import pretraining_curves
from dashboard.data.run_data import DataQuery, RunData, refreshed
from dashboard.views.run.tab_list import tabs_of
from dashboard.views.runs.run_table import row
from engine.config import RunConfig
from engine.events import DrafterPretrained
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import PretrainingRound

MINUTES = 10
CONFIG = telemetry.config(True, algorithm={"steps": 0}, drafter={"pretrain_minutes": MINUTES})
ROUNDS = [PretrainingRound.model_validate(event) for event in telemetry.events(CONFIG) if isinstance(event, DrafterPretrained)]


def at(round: int | None, steps: int = 0, **changes: Any) -> Run:
    """A run after so many rounds."""
    latest = None if round is None else ROUNDS[round - 1]
    return run("x", CONFIG).model_copy(update={"step": 0, "steps": steps, "pretraining": latest, **changes})


def test_what_the_page_answers() -> None:
    assert how_far(at(None)).headline == "Not yet"
    assert how_far(at(10)).headline == "About 7\xa0min 30\xa0s left"
    assert how_far(at(10, state="cancelled")).headline == "Broke off at 25\xa0%"
    ended = how_far(at(len(ROUNDS), state="succeeded"))
    assert (ended.headline, "nothing more was gained" in ended.detail) == ("Trained", True)
    assert how_good(ROUNDS[:10], ROUNDS[9]).headline == f"{ROUNDS[9].accept_length:.2f} tokens a pass"
    assert from_what(at(10)).headline == "1,280 responses"


@pytest.mark.parametrize(("steps", "time", "kind"), [(0, "7 min 30 s left", "drafter"), (30, "7 min 30 s first", "TLT")])
def test_a_list_says_drafter_in_place_of_steps(steps: int, time: str, kind: str) -> None:
    cells = row(at(10, steps), None, NOW, {})
    assert (cells["Step"], cells["Progress"], cells["Time"], cells["Kind"]) == ("drafter", 25.0, time, [kind])
    later = row(at(len(ROUNDS), steps, step=min(steps, 3)), None, NOW, {})
    assert (later["Step"], later["Progress"]) == (("drafter", 100.0) if steps == 0 else ("3 / 30", 10.0))


def test_only_tabs_that_have_something_to_show() -> None:
    names = [tab.name for tab in tabs_of(at(10))]
    assert names[0] == "Pretraining"
    assert not {"Overview", "Timeline", "Training", "Speculation"} & set(names)
    assert "Pretraining" not in [tab.name for tab in tabs_of(run("x", telemetry.config(True)))]


def test_the_plain_run_of_one_that_pretrains_is_valid_and_its_partner() -> None:
    config = telemetry.config(True, drafter={"path": None, "pretrain_minutes": MINUTES, "pretrain_responses": "a.jsonl"})
    assert likeness(RunConfig.model_validate(plain_baseline(config)).model_dump(mode="json")) == likeness(config)


def test_the_curves_are_over_minutes() -> None:
    (curve,) = (trace for trace in pretraining_curves.accept_length(ROUNDS).data if trace.name == "accept length")
    assert (curve.x[-1], curve.y[-1]) == (ROUNDS[-1].seconds / 60, ROUNDS[-1].accept_length)
    assert {trace.name for trace in pretraining_curves.shares(ROUNDS).data} == set(pretraining_curves.SHARES)


def test_where_a_pretrained_drafter_comes_from() -> None:
    trained = at(10, 30, drafter_id="0123456789abcdef")
    assert origin(trained) == "the drafter of artifact 0123456789abcdef"
    assert pretrained(trained).startswith("Version 10: trained from version 0 before the first step (2\xa0min 30\xa0s, 1,280 responses")
    assert (first_version(trained), ancestors([], None, first_version(trained))) == (10, [])


class Api:
    """Tells of the rounds that there are by now."""

    def __init__(self) -> None:
        self.now = 3

    def run(self, run_id: str) -> Run:  # noqa: ARG002
        return at(self.now)

    def pretraining(self, run_id: str, since_round: int, every: int) -> list[PretrainingRound]:  # noqa: ARG002
        return [one for one in ROUNDS[: self.now] if one.round > since_round and one.round % every == 0]


def test_a_page_asks_for_new_rounds_only() -> None:
    api: Any = Api()
    data = refreshed(RunData(at(3)), api, DataQuery(("pretraining",)))
    api.now = 5
    assert [one.round for one in refreshed(data, api, DataQuery(("pretraining",))).pretraining] == [1, 2, 3, 4, 5]
