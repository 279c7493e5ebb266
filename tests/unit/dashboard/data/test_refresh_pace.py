"""How often an open page asks for all that it draws."""

from itertools import pairwise

from example_runs import run

from dashboard.data.refresh_pace import LONGEST_SECONDS, RefreshPace
from longtail.schemas.runs import Run


def at(step: int) -> Run:
    return run("0123456789abcdef", {"name": "x"}).model_copy(update={"step": step})


def looks(pace: RefreshPace, steps: list[int], every: float = 2.0) -> list[bool]:
    return [pace.is_due(at(step), "Overview", every * place) for place, step in enumerate(steps)]


def test_a_step_is_asked_for_twice_and_then_let_be() -> None:
    assert looks(RefreshPace(), [1, 1, 1, 1, 2, 2, 2]) == [True, True, False, False, True, True, False]


def test_nothing_is_left_for_longer_than_half_a_minute() -> None:
    due = looks(RefreshPace(), [1] * 40)
    asked = [2 * place for place, is_due in enumerate(due) if is_due]
    assert len(asked) == 2 + 2
    assert max(after - before for before, after in pairwise(asked)) == LONGEST_SECONDS


def test_each_tab_has_a_time_of_its_own() -> None:
    pace = RefreshPace()
    looks(pace, [1, 1, 1])
    assert pace.is_due(at(1), "Timeline", 6.0)
    assert not pace.is_due(at(1), "Overview", 6.0)


def test_what_moves_slowly_has_a_pace_of_its_own() -> None:
    pace = RefreshPace()
    assert [pace.is_old("comparison", 2.0 * look, 15.0) for look in range(10)] == [True, *[False] * 7, True, False]
    assert pace.is_due(at(1), "Overview", 20.0)


def test_the_slower_the_answers_the_less_often_a_page_asks() -> None:
    pace = RefreshPace()
    due = []
    for look in range(20):
        due.append(pace.is_due(at(look), "Overview", 2.0 * look))
        pace.took = 0.5
    asked = [2.0 * look for look, is_due in enumerate(due) if is_due]
    assert [after - before for before, after in pairwise(asked)] == [6.0] * 6
    assert pace.is_due(at(20), "Timeline", 39.0), "a tab that nobody has looked at before does not wait"


def test_what_changed_while_a_page_rested_is_asked_for_afterwards() -> None:
    pace = RefreshPace(took=1.0)
    assert pace.is_due(at(1), "Overview", 0.0)
    assert not any(pace.is_due(at(2), "Overview", now) for now in (2.0, 4.0, 6.0, 8.0))
    assert pace.is_due(at(2), "Overview", 10.0)


def test_a_page_that_rests_is_told_that_its_run_has_ended() -> None:
    pace = RefreshPace(took=5.0)
    going = at(1).model_copy(update={"state": "running"})
    assert pace.is_due(going, "Overview", 0.0)
    assert not pace.is_due(going.model_copy(update={"step": 2}), "Overview", 2.0)
    assert pace.is_due(going.model_copy(update={"state": "cancelled"}), "Overview", 3.0)


def test_a_tab_that_was_closed_when_the_run_ended_is_told_of_the_end_once_it_is_open_again() -> None:
    """Also while the answers are slow, as nobody looks at a finished run of itself."""
    pace = RefreshPace(took=5.0)
    going = at(1).model_copy(update={"state": "running"})
    ended = at(9).model_copy(update={"state": "succeeded"})
    assert pace.is_due(going, "Speculation", 0.0)
    assert [pace.is_due(ended, "Learning", now) for now in (8.0, 10.0, 12.0)] == [True, False, False]
    assert pace.is_due(ended, "Speculation", 16.0)
    assert not pace.is_due(ended, "Speculation", 18.0)


def test_steps_that_were_done_while_a_tab_was_closed_are_asked_for() -> None:
    pace = RefreshPace()
    assert pace.is_due(at(1), "Speculation", 0.0)
    assert looks(pace, [2, 2, 2]) == [True, True, False]
    assert pace.is_due(at(2), "Speculation", 6.0)
