from contextlib import nullcontext
from datetime import UTC, datetime
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from backend.cli.demo_comparison import result, table
from backend.cli.demo_progress import cancel, numbers
from longtail import ApiError, Longtail
from longtail.schemas.comparison import ComparedRun, Comparison
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Series


def make_run(name: str = "demo-plain", **changes: Any) -> Run:
    now = datetime.now(UTC)
    given = {"id": name, "name": name, "state": "running", "config": {}, "seed": 1, "tags": [], "created_at": now, "started_at": now}
    given |= {"finished_at": None, "step": 3, "steps": 20, "attempt": 1, "cancel_requested": False, "error": None, "error_code": None}
    return Run.model_validate(given | {"summary": {}} | changes)


def compared(name: str, **measured: Any) -> ComparedRun:
    nothing = dict.fromkeys(ComparedRun.model_fields.keys() - {"run", "steps", "reward", "confounders"})
    reward = Series(steps=[0, 1], values=[0.25, None])
    return ComparedRun.model_validate(nothing | {"run": make_run(name), "steps": 2, "reward": reward} | measured)


@pytest.fixture
def comparison() -> Comparison:
    plain = compared("demo-plain", seconds_per_step=3.0, rollout_share=0.8, e2e_speedup=1.0)
    tlt = compared("demo-tlt", seconds_per_step=1.5, rollout_share=0.6, rollout_speedup=2.5, e2e_speedup=2.0, harvest=0.625)
    return Comparison(baseline="demo-plain", items=[plain, tlt], config_diff=[])


def test_the_table_shows_both_runs_and_a_dash_for_what_was_not_measured(comparison: Comparison) -> None:
    shown = StringIO()
    Console(width=100, file=shown).print(table(comparison))
    lines = {
        cells[1].strip(): [cell.strip() for cell in cells[2:4]]
        for line in shown.getvalue().splitlines()
        if len(cells := line.split("│")) > 3
    }
    assert lines["time per step"] == ["3.00 s", "1.50 s"]
    assert lines["rollout share of it, s"] == ["80%", "60%"]
    assert lines["rollout speed-up, r"] == ["-", "2.50x"]
    assert lines["end-to-end speed-up"] == ["1.00x", "2.00x"]
    assert lines["idle worker time used for drafter training"] == ["-", "62%"]
    assert "training of the drafter before" not in lines


def test_what_training_the_drafter_took_stands_below_the_speed_up(comparison: Comparison) -> None:
    rows = table(comparison, 480.2).columns
    place = list(rows[0].cells).index("training of the drafter before")
    assert [list(row.cells)[place] for row in rows[1:]] == ["-", "480 s"]
    assert list(rows[0].cells)[place - 1] == "end-to-end speed-up"
    assert result(comparison, [], 12.34, 480.25)["pretrain_s"] == 480.2
    assert result(comparison, [], 12.34, 0.0)["pretrain_s"] == 0.0


def test_the_result_takes_the_share_from_the_baseline_and_the_rest_from_tlt(comparison: Comparison) -> None:
    assert result(comparison, [1.0, 2.5], 12.34) == {
        "wall_s": 12.3,
        "e2e_speedup": 2.0,
        "rollout_share": 0.8,
        "rollout_speedup": 2.5,
        "reward_plain": [0.25, None],
        "reward_tlt": [0.25, None],
        "accept_length": [1.0, 2.5],
        "harvest": 0.625,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "queued", "step": 0}, "queued"),
        ({"summary": {"reward_mean": 0.314, "step_seconds": 2.26}}, "step 3/20, reward 0.31, 2.3 s/step"),
    ],
)
def test_progress_in_words(changes: dict[str, Any], expected: str) -> None:
    assert numbers(make_run(**changes)) == expected


@pytest.mark.parametrize("status", [409, 500])
def test_a_run_that_ends_just_when_it_is_cancelled_is_no_fault(status: int) -> None:
    found = iter([SimpleNamespace(finished=False), SimpleNamespace(finished=True)])

    class Client:
        def run(self, _: str) -> SimpleNamespace:
            return next(found)

        def cancel(self, _: str) -> None:
            raise ApiError(status, "", "run 7 is failed: cannot cancel it")

    left = [cast(Run, SimpleNamespace(id="7", finished=False))]
    with nullcontext() if status == 409 else pytest.raises(ApiError):
        cancel(cast(Longtail, Client()), Console(quiet=True), left)
