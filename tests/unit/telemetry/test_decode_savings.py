"""What a step's decoding would have taken otherwise follows from its slowest workers and from what training has brought."""

import pytest

from engine.speculation.counterfactual import DecodeSeconds
from engine.telemetry.decode_savings import decode_savings

WORKERS = {0: DecodeSeconds(4.0, 3.0, 9.0, 6.0), 1: DecodeSeconds(5.0, 2.0, 8.0, 7.0)}


def test_of_every_way_to_decode_the_slowest_worker_counts() -> None:
    found = decode_savings(WORKERS, 1.0)
    assert found == {"decode_seconds": 5.0, "decode_seconds/plain": 9.0, "decode_seconds/ngram": 7.0, "decode_seconds/untrained": 5.0}


@pytest.mark.parametrize(("gain", "untrained"), [(1.0, 5.0), (1.5, 6.0), (3.0, 7.0), (0.5, 4.0)])
def test_without_training_learned_drafts_bring_less_by_its_gain_and_n_grams_are_there_still(gain: float, untrained: float) -> None:
    assert decode_savings(WORKERS, gain)["decode_seconds/untrained"] == untrained


def test_a_drafter_slower_than_n_grams_gains_nothing_by_training() -> None:
    assert decode_savings({0: DecodeSeconds(5.0, 5.0, 8.0, 4.0)}, 2.0)["decode_seconds/untrained"] == 5.0


def test_workers_that_do_not_know_tell_nothing() -> None:
    assert decode_savings({}, 2.0) == {}
