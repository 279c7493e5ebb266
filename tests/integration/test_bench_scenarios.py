"""The scenarios of ``bench e2e`` are real runs whose arms generate the same and take their own time."""

from pathlib import Path

from sizes import only_with_all

from engine.bench import e2e, wall_time_chart


@only_with_all
def test_a_policy_that_moves_does_so_alike_in_all_arms(tmp_path: Path) -> None:
    found = e2e.run(True, "tiny", tmp_path, scenario="drift")
    drift = found["drift"]
    assert all(arm["same_rewards"] for arm in found["arms"].values())
    assert all(0 < seconds == drift["wall_by_step_s"][arm][-1] for arm, seconds in drift["wall_s"].items())
    assert drift["accept_first"]["plain"] == 1 < drift["accept_first"]["static"]
    assert "<polyline" in wall_time_chart.draw(found)


@only_with_all
def test_a_run_without_a_drafter_is_measured_against_plain_decoding(tmp_path: Path) -> None:
    found = e2e.run(True, "tiny", tmp_path, scenario="cold")
    assert found["arms"]["tlt"]["same_rewards"]
    assert 0 < found["cold"]["least_window"] <= max(found["cold"]["ratio_by_window"])
