from typing import Any

import pytest
from example_runs import compared_run, run

from backend.demo_data import telemetry
from dashboard.analysis.run_questions import is_it_faster, is_it_training, of_ended, why
from longtail.schemas.run_statistics import RewardTrend, RunStatistics, SavedSeconds

NOTHING: dict[str, Any] = dict.fromkeys(RunStatistics.model_fields) | {
    "steps": 0,
    "rewarded_steps": 0,
    "accept_steps": 0,
    "tail_steps": 0,
    "published": 0,
}


def statistics(**known: Any) -> RunStatistics:
    return RunStatistics(**NOTHING | known)


def trend(first: float, last: float, error: float) -> RunStatistics:
    return statistics(reward=last, rewarded_steps=9, reward_trend=RewardTrend(steps=3, first=first, last=last, error=error))


@pytest.mark.parametrize(
    ("found", "called"),
    [
        (trend(0.3, 0.5, 0.01), "rising (+0.200 ± 0.020)"),
        (trend(0.5, 0.3, 0.01), "falling"),
        (trend(0.4, 0.42, 0.05), "no clear change"),
        (trend(0.0, 0.0, 0.0), "no clear change"),
        (trend(-0.5, -0.3, 0.01), "rising (+0.200 ± 0.020)"),
    ],
)
def test_training_calls_a_change_only_if_it_is_clear(found: RunStatistics, called: str) -> None:
    assert called in is_it_training(found, 9).detail


def test_training_says_when_it_is_too_early() -> None:
    assert is_it_training(statistics(), 30).headline == "Not yet"
    assert is_it_training(statistics(reward=0.35, rewarded_steps=2), 30).detail == "2 of 30 steps: too few to tell"


def test_what_a_run_has_not_shown_by_its_end_is_not_said_to_come() -> None:
    nothing = is_it_training(statistics(), 30)
    assert of_ended(nothing).headline == "No step"
    assert of_ended(why(run("x", telemetry.config(True)), statistics(steps=2, tail=3.0, tail_steps=2))).headline == "No drafts"
    assert [of_ended(why(run("x", telemetry.config(kind)), statistics())).headline for kind in (True, False)] == ["No step", "No step"]
    some = is_it_training(statistics(reward=0.35, rewarded_steps=2), 30)
    assert of_ended(some) == some


def test_faster_shows_share_and_speedup_together() -> None:
    plain, tlt = (
        compared_run(False, seconds_per_step=3.0, rollout_share=0.8),
        compared_run(True, seconds_per_step=2.0, rollout_speedup=1.9, e2e_speedup=1.5),
    )
    seen = statistics(steps=20, step_seconds=2.0)
    answer = is_it_faster(tlt.run, seen, plain, tlt)
    assert answer.headline == "1.50× end to end"
    assert all(text in answer.detail for text in ("2.00\xa0s", "3.00\xa0s", "80\xa0%", "1.90×", "20 steps"))
    assert "machine" not in answer.detail
    assert is_it_faster(plain.run, seen, plain, tlt).headline == "Plain baseline"
    elsewhere = tlt.model_copy(update={"machine": "node-2"})
    assert "on another machine: node-2 instead of not known" in is_it_faster(tlt.run, seen, plain, elsewhere).detail


def test_faster_without_a_partner_says_so() -> None:
    answer = is_it_faster(run("x", telemetry.config(True)), statistics(steps=2, step_seconds=3.0), None, None)
    assert answer.headline == "3.00\xa0s a step"
    assert "no plain run" in answer.detail


def test_why_names_accept_length_tail_and_harvest() -> None:
    seen = statistics(
        steps=900, accept_length=2.5, accept_steps=5, tail=10.0, tail_steps=500, idle_seconds=8.0, trained_seconds=6.0, published=2767
    )
    answer = why(run("x", telemetry.config(True)), seen)
    assert answer.headline == "2.50 tokens a pass"
    assert all(text in answer.detail for text in ("10.0× the median in the last 500 steps", "75\xa0%", "2,767 new versions"))


SAVED = SavedSeconds(steps=20, decoding=100.0, drafts=60.0, learned_drafter=-6.0, training=4.9)


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        (None, "by how much that shortened the run was not measured"),
        (
            SAVED,
            "estimated for decoding: drafts saved 1\xa0min 0\xa0s, the learned drafter cost 6.00\xa0s, "
            "training during the run brought nothing",
        ),
        (SAVED.model_copy(update={"steps": 12, "training": 12.0}), "in 12 steps: drafts saved 1\xa0min"),
        (SAVED.model_copy(update={"training": 12.0}), "training during the run saved 12"),
        (
            SavedSeconds(steps=20, decoding=0, drafts=0, learned_drafter=0, training=0),
            "drafts brought nothing, the learned drafter brought",
        ),
    ],
)
def test_why_says_by_how_much_each_part_shortened_the_run(saved: SavedSeconds | None, told: str) -> None:
    answer = why(run("x", telemetry.config(True)), statistics(steps=20, accept_length=2.5, accept_steps=5, saved=saved))
    assert told in answer.detail


def test_why_of_a_plain_run_is_the_waiting() -> None:
    plain = run("x", telemetry.config(False))
    seen = [why(plain, statistics(steps=2, tail=3.0, tail_steps=2, idle_seconds=waited)) for waited in (4.0, 0.0, None)]
    assert [answer.headline for answer in seen] == ["4.00\xa0s idle", "No waiting", "Waiting not measured"]
    assert ["waited" in answer.detail for answer in seen] == [True, False, False]
    assert all(of_ended(answer) == answer for answer in seen)
    assert why(plain, statistics()).headline == "Not yet"


def test_rewards_that_were_not_measured_are_not_steps_that_are_not_done() -> None:
    answer = is_it_training(statistics(steps=12), 12)
    assert (answer.headline, answer.detail) == ("Reward not measured", "in none of 12 steps")
    assert of_ended(answer) == answer
    assert is_it_training(statistics(steps=2, reward=-1e9, rewarded_steps=2), 2).headline == "Reward -1,000,000,000.00"


def test_more_training_than_waiting_is_of_steps_whose_waiting_was_not_told() -> None:
    seen = statistics(steps=20, accept_length=2.5, accept_steps=5, idle_seconds=8.0, trained_seconds=9.0)
    assert "of the waiting" not in why(run("x", telemetry.config(True)), seen).detail


def test_training_that_was_not_measured_is_not_told_as_none() -> None:
    waited = statistics(steps=20, accept_length=2.5, accept_steps=5, idle_seconds=8.0)
    assert "of the waiting" not in why(run("x", telemetry.config(True)), waited).detail
