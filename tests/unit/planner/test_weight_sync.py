"""The way of new weights, worked out by hand, and the bar for 7 B: within a second."""

import pytest

from engine.models import weights
from engine.planner import weight_sync
from engine.planner.memory import Hardware
from engine.planner.model_shape import PRESETS, Shape
from engine.planner.weight_sync import Links, sync_seconds, way_of

TEN = Links(memory=10.0, nvlink=4.0, network=2.0, pcie=5.0, host=1.0, message=0.0)


def test_by_hand() -> None:
    """Of ten bytes, on one GPU of two: half of them over NVLink, thirty for filling, twenty for taking."""
    shape = Shape(0, 1, 1, 1, 1, 1, 4, True)
    assert 2 * shape.parameters == 10
    one, two = Hardware(gpus=2), Hardware(nodes=2, gpus=1)
    shards_over_the_network = 5 / 2
    assert sync_seconds(shape, one, "same GPU", TEN) == pytest.approx(5 / 4 + 3 + 2)
    assert sync_seconds(shape, one, "same GPU", TEN, sharded=False) == pytest.approx(3 + 2)
    assert sync_seconds(shape, one, "host memory", TEN, sharded=False) == pytest.approx(3 + 2 + 20 / 5 + 10)
    assert sync_seconds(shape, two, "same GPU", TEN) == pytest.approx(shards_over_the_network + 3 + 2)


def test_7b_is_there_within_a_second_on_the_same_gpu_only() -> None:
    """By way of host memory, which a worker of several GPUs takes, it is not: see the limits of SGLang in ``engine/README.md``."""
    one, two = Hardware(), Hardware(tensor_parallel=2)
    assert sync_seconds(PRESETS["7B"], one, way_of(one)) < 1.0
    assert sync_seconds(PRESETS["7B"], two, way_of(two)) == pytest.approx(2.3, abs=0.05)


def test_buckets_are_those_that_are_sent() -> None:
    assert weight_sync.BUCKET_BYTES == weights.BUCKET_BYTES
