"""The way of new weights, worked out by hand, and the bar for 7 B: within a second."""

import math

import pytest

from engine.models import weights
from engine.planner import weight_sync
from engine.planner.memory import Hardware
from engine.planner.model_shape import PRESETS, Shape
from engine.planner.weight_sync import Links, sync_seconds

TEN = Links(memory=10.0, nvlink=4.0, network=2.0, message=0.0)


def test_by_hand() -> None:
    """Of ten bytes, on one GPU of two: half of them over NVLink, thirty for filling, twenty for taking."""
    shape = Shape(0, 1, 1, 1, 1, 1, 4, True)
    assert 2 * shape.parameters == 10
    one, two = Hardware(gpus=2), Hardware(nodes=2, gpus=1)
    shards_over_the_network = 5 / 2
    assert sync_seconds(shape, one, TEN) == pytest.approx(5 / 4 + 3 + 2)
    assert sync_seconds(shape, one, TEN, sharded=False) == pytest.approx(3 + 2)
    assert sync_seconds(shape, Hardware(gpus=2, tensor_parallel=2), TEN) == pytest.approx(5 / 4 + 3 + 2 / 2)
    messages_alone = Links(math.inf, math.inf, math.inf, message=7.0)
    assert sync_seconds(shape, Hardware(tensor_parallel=2), messages_alone) == 2 * 7.0
    assert sync_seconds(shape, two, TEN) == pytest.approx(shards_over_the_network + 3 + 2)


@pytest.mark.parametrize("sharded", [True, False])
@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_7b_is_there_within_a_second(ranks: int, sharded: bool) -> None:
    assert sync_seconds(PRESETS["7B"], Hardware(tensor_parallel=ranks), sharded=sharded) < 1.0


def test_buckets_are_those_that_are_sent() -> None:
    assert weight_sync.BUCKET_BYTES == weights.BUCKET_BYTES
