import pytest
from example_runs import NO_POINTS, compared_run, run

from backend.demo_data import telemetry
from dashboard.analysis.run_questions import is_it_faster, is_it_training, why
from longtail.schemas.telemetry import DrafterSession, Lengths, Series


def series(values: list[float]) -> Series:
    return Series(steps=list(range(len(values))), values=list(values))


@pytest.mark.parametrize(
    ("values", "trend"),
    [
        ([0.3, 0.31, 0.29, 0.3, 0.35, 0.4, 0.5, 0.51, 0.49], "rising"),
        ([0.5, 0.51, 0.49, 0.45, 0.4, 0.35, 0.3, 0.31, 0.29], "falling"),
        ([0.3, 0.5, 0.4, 0.2, 0.6, 0.4, 0.5, 0.3, 0.42], "no clear change yet"),
    ],
)
def test_training_calls_a_change_only_if_it_is_clear(values: list[float], trend: str) -> None:
    assert trend in is_it_training(series(values), 9).detail


def test_training_says_when_it_is_too_early() -> None:
    assert is_it_training(NO_POINTS, 30).headline == "Not yet"
    assert "too early" in is_it_training(series([0.3, 0.4]), 30).detail


def test_faster_shows_share_and_speedup_together() -> None:
    plain, tlt = (
        compared_run(False, seconds_per_step=3.0, rollout_share=0.8),
        compared_run(True, seconds_per_step=2.0, rollout_speedup=1.9, e2e_speedup=1.5),
    )
    answer = is_it_faster(tlt.run, series([2.0]), plain, tlt)
    assert answer.headline == "1.50× end to end"
    assert all(text in answer.detail for text in ("2.00 s", "3.00 s", "80 %", "1.90×", "20 steps"))
    assert is_it_faster(plain.run, series([3.0]), plain, tlt).headline == "Plain baseline"


def test_faster_without_a_partner_says_so() -> None:
    answer = is_it_faster(run("x", telemetry.config(True)), series([2.0, 4.0]), None, None)
    assert answer.headline == "3.00 s a step"
    assert "no plain run" in answer.detail


def test_why_names_accept_length_tail_and_harvest() -> None:
    lengths = [Lengths(step=0, lengths=[], truncated=0, p50=50, p75=80, p90=200, max=500)]
    session = DrafterSession(
        step=0, time=0, drafter_version=1, published=True, reason="", microsteps=1, tokens=1, loss=1, held_out_before=2, held_out_after=1
    )
    answer = why(run("x", telemetry.config(True)), series([2.0, 3.0]), series([4.0, 4.0]), series([3.0, 3.0]), lengths, [session])
    assert answer.headline == "2.50 tokens a pass"
    assert all(text in answer.detail for text in ("10.0×", "75 %", "1 new version"))


def test_why_of_a_plain_run_is_the_waiting() -> None:
    answer = why(run("x", telemetry.config(False)), series([1.0]), series([4.0]), NO_POINTS, [], [])
    assert answer.headline == "4.00 s idle"
