"""Runs that train a drafter before their first step, as the pages tell of them."""

from datetime import UTC, datetime, timedelta
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
from longtail.schemas.runs import Run, StartingUp
from longtail.schemas.telemetry import PretrainingRound

MINUTES = 10
CONFIG = telemetry.config(True, algorithm={"steps": 0}, drafter={"pretrain_minutes": MINUTES})
ROUNDS = [PretrainingRound.model_validate(event) for event in telemetry.events(CONFIG) if isinstance(event, DrafterPretrained)]


TENTH = datetime.fromtimestamp(ROUNDS[9].time, UTC)


def beginning_with(phase: Any, now: datetime = NOW) -> StartingUp:
    return StartingUp(phase=phase, since=now - timedelta(seconds=4), done=0, total=0)


def at(round: int | None, steps: int = 0, **changes: Any) -> Run:
    """A run after so many rounds."""
    latest = None if round is None else ROUNDS[round - 1]
    return run("x", CONFIG).model_copy(update={"step": 0, "steps": steps, "pretraining": latest, **changes})


@pytest.mark.parametrize(
    ("changes", "headline", "detail"),
    [
        ({"state": "queued"}, "Not yet", "no round has finished: the run is queued"),
        ({"state": "paused"}, "Not yet", "no round has finished: the run is paused"),
        ({"state": "starting"}, "Not yet", "no round has finished: the engine is being started"),
        ({"state": "failed"}, "No round", "the run ended before its first round did"),
        ({"state": "cancelled", "starting_up": beginning_with("first_responses")}, "No round", "the run ended before its first round did"),
        (
            {"starting_up": beginning_with("first_responses")},
            "Not yet",
            "no round has finished: the model writes its first responses, for 4.00\xa0s, up to about 9\xa0min 56\xa0s to train the drafter",
        ),
    ],
)
def test_only_a_model_that_writes_is_said_to_write(changes: dict[str, Any], headline: str, detail: str) -> None:
    run = at(None, **changes)
    told = how_far(run, NOW)
    assert (told.headline, told.detail) == (headline, detail)
    assert {how_good([], run).headline, from_what(run).headline} == {headline}


@pytest.mark.parametrize(
    ("changes", "seconds", "headline", "spent"),
    [
        ({}, 60, "About 6\xa0min 30\xa0s left", "3\xa0min 30\xa0s of about 10\xa0min 0\xa0s"),
        ({}, 999, "Ends with this round", "10\xa0min 0\xa0s of about 10\xa0min 0\xa0s"),
        ({"state": "paused"}, 60, "About 7\xa0min 30\xa0s left", "2\xa0min 30\xa0s of about 10\xa0min 0\xa0s"),
        ({"starting_up": "measuring_costs"}, 60, "About 7\xa0min 30\xa0s left", "2\xa0min 30\xa0s of about 10\xa0min 0\xa0s"),
        ({"starting_up": "first_round"}, 60, "About 7\xa0min 26\xa0s left", "2\xa0min 34\xa0s of about 10\xa0min 0\xa0s"),
    ],
)
def test_what_is_left_counts_on_within_a_round_while_it_trains(changes: dict[str, Any], seconds: int, headline: str, spent: str) -> None:
    """A later attempt began with its first round four seconds ago."""
    now = TENTH + timedelta(seconds=seconds)
    run = at(10, **changes)
    if "starting_up" in changes:
        run = run.model_copy(update={"starting_up": beginning_with(changes["starting_up"], now)})
    told = how_far(run, now)
    assert (told.headline, told.detail) == (headline, f"{spent}, in 10 rounds")


def test_nothing_is_longer_than_its_longest() -> None:
    latest = ROUNDS[9].model_copy(update={"seconds": 32.6, "limit": 30.0, "end": 30.0, "done": True})
    assert how_far(at(10, state="succeeded", pretraining=latest), NOW).detail == "32.6\xa0s, in 10 rounds"


def test_what_the_page_answers() -> None:
    assert how_far(at(None), NOW).headline == "Not yet"
    assert how_far(at(10), TENTH).headline == "About 7\xa0min 30\xa0s left"
    assert how_far(at(10, state="cancelled"), NOW).headline == "Broke off at 25\xa0%"
    ended = how_far(at(len(ROUNDS), state="succeeded"), NOW)
    assert (ended.headline, "nothing more was gained" in ended.detail) == ("Trained", True)
    assert how_good(ROUNDS[:10], at(10)).headline == f"{ROUNDS[9].accept_length:.2f} tokens a pass"
    assert from_what(at(10)).headline == "1,280 responses"


@pytest.mark.parametrize(("steps", "time", "kind"), [(0, "7 min 30 s left", "drafter"), (30, "7 min 30 s first", "TLT")])
def test_a_list_says_drafter_in_place_of_steps(steps: int, time: str, kind: str) -> None:
    cells = row(at(10, steps), None, TENTH, {})
    assert (cells["Step"], cells["Progress"], cells["Time"], cells["Kind"]) == ("drafter", 25.0, time, [kind])
    later = row(at(len(ROUNDS), steps, step=min(steps, 3)), None, NOW, {})
    assert (later["Step"], later["Progress"]) == (("drafter", 100.0) if steps == 0 else ("3 / 30", 10.0))


def test_only_tabs_that_have_something_to_show() -> None:
    names = [tab.name for tab in tabs_of(at(10))]
    assert names[0] == "Pretraining"
    assert not {"Overview", "Timeline", "Training", "Speculation"} & set(names)
    assert "Pretraining" not in [tab.name for tab in tabs_of(run("x", telemetry.config(True)))]


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ({"steps": 30, "drafter_id": None}, True),
        ({"steps": 30, "drafter_id": ""}, True),
        ({"steps": 30, "drafter_id": "0123456789abcdef"}, False),
        ({"steps": 30, "drafter_id": "", "starting_up": "first_responses"}, True),
        ({"steps": 30, "drafter_id": "", "starting_up": "first_rollout"}, False),
        ({"steps": 0, "drafter_id": "0123456789abcdef"}, True),
    ],
)
def test_a_run_that_has_found_a_drafter_promises_no_training_of_one(changes: dict[str, Any], offered: bool) -> None:
    run = at(None, **changes)
    if "starting_up" in changes:
        run = run.model_copy(update={"starting_up": beginning_with(changes["starting_up"])})
    assert ("Pretraining" in [tab.name for tab in tabs_of(run)]) == offered


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
