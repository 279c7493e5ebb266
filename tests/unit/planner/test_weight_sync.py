"""The way of new weights, worked out by hand, and the bar for 7 B: within a second."""

import math

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
    assert sync_seconds(shape, Hardware(gpus=2, tensor_parallel=2), "same GPU", TEN) == pytest.approx(5 / 4 + 3 + 2 / 2)
    assert (
        sync_seconds(shape, Hardware(tensor_parallel=2), "same GPU", Links(math.inf, math.inf, math.inf, math.inf, math.inf, 7.0))
        == 2 * 7.0
    )
    assert sync_seconds(shape, two, "same GPU", TEN) == pytest.approx(shards_over_the_network + 3 + 2)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_7b_is_there_within_a_second(ranks: int) -> None:
    hardware = Hardware(tensor_parallel=ranks)
    assert sync_seconds(PRESETS["7B"], hardware, way_of(hardware, sharded=True)) < 1.0


def test_replicas_come_to_several_gpus_through_host_memory() -> None:
    """See the limits of SGLang in ``engine/README.md``."""
    hardware = Hardware(tensor_parallel=2)
    assert way_of(Hardware(), sharded=False) == "same GPU"
    assert sync_seconds(PRESETS["7B"], hardware, way_of(hardware, sharded=False), sharded=False) == pytest.approx(2.3, abs=0.05)


def test_buckets_are_those_that_are_sent() -> None:
    assert weight_sync.BUCKET_BYTES == weights.BUCKET_BYTES
