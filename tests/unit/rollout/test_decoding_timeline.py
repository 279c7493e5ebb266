"""What is remembered of a rollout's course: few moments, and true ones."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.rollout.decoding_timeline import MOST, DecodingTimeline, Moment, thinned


def test_only_changes_are_remembered() -> None:
    ticks = iter(range(100))
    timeline = DecodingTimeline(lambda: float(next(ticks)))
    for running, strategy in ((4, "off"), (4, "off"), (4, "eagle"), (3, "eagle"), (0, "off"), (0, "off")):
        timeline.add(running, strategy)
    moments = [Moment(0, 4, "off"), Moment(1, 4, "eagle"), Moment(2, 3, "eagle"), Moment(3, 0, "off"), Moment(4, 0, "off")]
    assert timeline.take() == moments, "each end of a rollout counts"
    assert timeline.take() == []


def test_in_the_middle_of_a_rollout_one_timeline_ends_where_the_next_one_starts() -> None:
    ticks = iter(range(100))
    timeline = DecodingTimeline(lambda: float(next(ticks)))
    timeline.add(4, "eagle")
    assert timeline.take_so_far() == [Moment(0, 4, "eagle"), Moment(1, 0, "eagle")]
    timeline.add(4, "eagle")
    timeline.add(0, "off")
    assert timeline.take_so_far() == [Moment(1, 4, "eagle"), Moment(2, 0, "off")]
    assert timeline.take_so_far() == []


@given(st.lists(st.tuples(st.floats(0, 10), st.sampled_from(["off", "eagle", "ngram"])), max_size=300))
def test_a_thinned_trail_is_short_and_part_of_the_whole(steps: list[tuple[float, str]]) -> None:
    now, moments = 100.0, []
    for running, (wait, strategy) in zip(range(len(steps), 0, -1), steps, strict=True):
        moments.append(Moment(now, running, strategy))
        now += wait
    few = thinned(moments)
    assert len(few) <= MOST
    assert few[-1:] == moments[-1:]
    assert few[:1] == [] or few[0].time == moments[0].time
    assert all(before.time <= after.time and before.running > after.running for before, after in pairwise(few))
    assert {(moment.time, moment.running) for moment in few} <= {(moment.time, moment.running) for moment in moments}


def test_the_strategy_that_was_used_longest_stands_for_its_span() -> None:
    """A tenth of the time is spent on another arm, in between."""
    moments = [Moment(index + (0.9 if part else 0.0), 8, "ngram" if part else "eagle") for index in range(500) for part in (0, 1)]
    few = thinned([*moments, Moment(500.0, 0, "off")], 10)
    assert [moment.strategy for moment in few] == ["eagle"] * 9 + ["off"]
