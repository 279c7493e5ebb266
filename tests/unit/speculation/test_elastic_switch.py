"""The elastic switch against its rule, told twice."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from engine.speculation.elastic_switch import ElasticSwitch


def drive(switch: ElasticSwitch, running: Sequence[int]) -> list[bool]:
    return [switch.update(requests) for requests in running]


def test_a_batch_shrinks_grows_and_shrinks_again() -> None:
    running = [40, 10, 9, 8, 9, 10, 11, 10, 9, 8, 0, 10, 40]  # the band is 9 and 10
    expected = [False, False, False, True, True, True, False, False, False, True, True, True, False]
    assert drive(ElasticSwitch(8, 0.25), running) == expected


def test_a_batch_may_start_below_the_threshold() -> None:
    assert ElasticSwitch(8, 0.25).update(3)


def test_a_first_call_inside_the_band_is_off() -> None:
    assert drive(ElasticSwitch(8, 0.25), [9, 10]) == [False, False]


def test_without_hysteresis_the_threshold_alone_decides() -> None:
    assert drive(ElasticSwitch(8, 0), [8, 9, 8, 9]) == [True, False, True, False]


@given(st.integers(1, 100), st.floats(0, 3), st.lists(st.integers(0, 500), min_size=1))
def test_it_never_flaps_inside_the_band_and_always_obeys_outside(threshold: int, hysteresis: float, running: list[int]) -> None:
    before = False
    for requests, on in zip(running, drive(ElasticSwitch(threshold, hysteresis), running), strict=True):
        if requests <= threshold:
            assert on
        elif requests > threshold * (1 + hysteresis):
            assert not on
        else:
            assert on == before
        before = on


def test_a_rollout_begins_as_the_first_one_did() -> None:
    switch = ElasticSwitch(8, 0.25)
    assert drive(switch, [8, 9]) == [True, True]
    switch.reset()
    assert drive(switch, [9, 8]) == [False, True]
