from datetime import timedelta
from typing import Any

import pytest
from example_runs import NOW, run

from backend.demo_data import telemetry
from dashboard.views.runs.filters import BY_COLUMN, SORTS
from dashboard.views.runs.run_table import HELP, STATES, columns, row
from longtail.schemas.run_overviews import RunOverview

TLT = run("a", telemetry.config(True))
GLANCE = RunOverview(run_id="a", reward=[0.1, None, 0.3], step_seconds=2.0, partner_id="b", speedup=1.5)


def test_a_row_says_how_far_and_how_fast_a_run_is() -> None:
    cells = row(TLT, GLANCE, NOW + timedelta(hours=3), {})
    assert cells["Name"] == ["countdown TLT"]
    assert (cells["Kind"], cells["State"]) == (["TLT"], ["running"])
    assert (cells["Step"], cells["Progress"], cells["Time"], cells["Time a step"]) == ("5 / 30", 100 * (5 / 30), "50.0 s left", "2.00 s")
    assert (cells["Rewards"], cells["Speed-up"], cells["Created"]) == ([0.1, 0.3], 1.5, "3 h ago")


def test_the_reward_is_smoothed_and_sorted_by_what_is_shown() -> None:
    """The latest step's is noise: by that a run came first that is worse."""
    told = TLT.model_copy(update={"summary": {"reward_mean": 0.9, "reward_recent": 0.412, "reward_spread": 0.031}})
    assert row(told, GLANCE, NOW, {})["Reward"] == "0.412 ± 0.031"
    assert {SORTS[order] for order in BY_COLUMN["Reward"]} == {"summary.reward_recent", "-summary.reward_recent"}
    script = told.model_copy(update={"kind": "tracked", "summary": {"reward_mean": 0.9}})
    assert row(script, GLANCE, NOW, {})["Reward"] == "0.900"
    assert all("of a script's run under way the latest value" in HELP[name] for name in ("Reward", "Accept length"))


def test_accept_length_and_pace_are_sorted_by_what_is_shown() -> None:
    told = TLT.model_copy(update={"summary": {"accept_length": 9.0, "accept_recent": 2.5, "step_seconds": 9.0, "step_seconds_recent": 2.0}})
    cells = row(told, GLANCE, NOW, {})
    assert (cells["Accept length"], cells["Time a step"]) == (2.5, "2.00 s")
    assert {SORTS[order] for order in BY_COLUMN["Accept length"]} == {"summary.accept_recent", "-summary.accept_recent"}
    assert {SORTS[order] for order in BY_COLUMN["Time a step"]} == {"summary.step_seconds_recent", "-summary.step_seconds_recent"}
    assert row(told.model_copy(update={"summary": {"accept_length": 3.4}}), GLANCE, NOW, {})["Accept length"] == 3.4


def test_a_plain_run_has_no_speed_up_of_its_own() -> None:
    assert row(run("b", telemetry.config(False)), GLANCE, NOW, {})["Speed-up"] is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": "queued"}, "–"),
        ({"state": "paused"}, "–"),
        ({"step": 30}, "–"),
        ({"state": "succeeded", "started_at": NOW, "finished_at": NOW + timedelta(minutes=2)}, "2 min 0 s"),
        ({"state": "cancelled", "finished_at": NOW}, "–"),
    ],
)
def test_time_is_what_is_left_or_what_it_took(changes: dict[str, Any], text: str) -> None:
    assert row(TLT.model_copy(update=changes), GLANCE, NOW, {})["Time"] == text


def test_a_run_that_has_told_nothing() -> None:
    cells = row(run("c", {"name": "[a, b]"}), None, NOW, {})
    assert cells["Name"] == ["[a, b]"]
    assert (cells["Rewards"], cells["Reward"], cells["Speed-up"], cells["Time"]) == ([], None, None, "–")


def test_shortcodes_in_names_and_errors_are_parted() -> None:
    cells = row(run("d", {"name": ":material/home: <b>"}).model_copy(update={"error": ":x:"}), None, NOW, {})
    assert ":material/" not in cells["Name"][0]
    assert cells["Name"][0].replace("\u2060", "") == ":material/home: <b>"


def test_columns_that_say_nothing_are_hidden() -> None:
    runs = [TLT, TLT.model_copy(update={"owner": "ada", "error": "broke", "project_id": "x"})]
    assert {key for key, each in columns(runs[:1], None).items() if each is None} == {"Name", "Error", "Project", "User"}
    assert {key for key, each in columns(runs, None).items() if each is None} == {"Name"}


def test_every_state_has_a_colour_and_every_column_s_order_is_known() -> None:
    states = [TLT.model_copy(update={"state": state}).doing for state in ("queued", "starting", "running", "paused", "succeeded")]
    wishes = [TLT.model_copy(update={wish: True}).doing for wish in ("cancel_requested", "pause_requested")]
    assert {*states, *wishes, "failed", "cancelled"} == set(STATES)
    assert {order for orders in BY_COLUMN.values() for order in orders} == set(SORTS)
    assert set(BY_COLUMN) <= set(row(TLT, None, NOW, {}))
