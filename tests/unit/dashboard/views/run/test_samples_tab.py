"""What the tab Samples calls responses and runs."""

import pytest
from example_runs import run

from dashboard.charts.theme import GREEN, GREY, VERMILION
from dashboard.views.run.tabs.samples import advantage_told, judged, not_found, offered
from longtail.schemas.telemetry import SampleItem


@pytest.mark.parametrize(("reward", "said"), [(1.0, ("right", GREEN)), (0.0, ("wrong", VERMILION)), (None, ("not told", GREY))])
def test_a_response_without_a_reward_is_not_called_wrong(reward: float | None, said: tuple[str, str]) -> None:
    assert judged(SampleItem(step=0, prompt="1 + 1", response="2", reward=reward)) == said


@pytest.mark.parametrize(("advantage", "told"), [(1.25, "+1.25"), (-0.5, "-0.50"), (0.0, "0.00"), (-0.001, "0.00")])
def test_no_advantage_has_no_sign(advantage: float, told: str) -> None:
    assert advantage_told(advantage) == told


def test_every_run_to_look_in_has_a_name_of_its_own() -> None:
    own = run("00aa000000000000", {"name": "same"})
    others = [own, *(run(f"0{number}bb000000000000", {"name": name}) for number, name in enumerate(("same", "same", "this run", "other")))]
    names = offered(own, others)
    assert list(names) == [each.id for each in others]
    assert list(names.values()) == ["this run", "same (00bb00)", "same (01bb00)", "this run (02bb00)", "other"]


def test_a_search_that_finds_no_other_run_says_what_was_searched() -> None:
    own, other = (run(f"0{number}aa000000000000", {"name": "same"}) for number in range(2))
    assert not_found(own, [own], "ti*ny") == "No other run has ti\\*ny in its name or notes, or at the beginning of its id."
    assert not_found(own, [], "") == "There is no other run to look in."
    assert not_found(own, [other, own], "ti*ny") is None
    assert not_found(own, None, "ti*ny") is None, "nobody has answered"
