"""Weights for an SGLang on the same GPU: on a CPU, where torch shares memory of the host in the same way."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch

from engine.rollout.sglang.weight_transfer import on_device

PASS_ON = """
import pickle, sys
from multiprocessing.reduction import ForkingPickler
handle = pickle.load(sys.stdin.buffer)
opened = [line for line in open("/proc/self/maps") if "/torch_" in line]
assert not opened, opened
sys.stdout.buffer.write(bytes(ForkingPickler.dumps({"flattened_tensor": handle.opening()})))
"""


@pytest.fixture(autouse=True)
def by_name() -> Iterator[None]:
    """As CUDA IPC does it: by default a CPU's memory is shared by a file descriptor, which only a child gets."""
    shared: Any = torch.multiprocessing
    before = shared.get_sharing_strategy()
    shared.set_sharing_strategy("file_system")
    yield
    shared.set_sharing_strategy(before)


def test_a_bucket_goes_through_a_process_that_does_not_open_it() -> None:
    weights = {"a": torch.randn(3, 5), "b": torch.randn(40), "c": torch.randn(2, 2)}
    found = {}
    for bucket, last, handle in on_device(weights, torch.bfloat16, torch.device("cpu")):
        done = subprocess.run([sys.executable, "-c", PASS_ON], input=pickle.dumps(handle), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        flat = ForkingPickler.loads(done.stdout)["flattened_tensor"]
        assert flat.nbytes == bucket.bytes
        assert last
        for span in bucket.tensors:
            found[span.name] = flat[span.start : span.end].view(span.dtype).view(span.shape)
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name].bfloat16()) for name in weights)


def test_what_is_opened_is_the_same_memory() -> None:
    ((_, _, handle),) = on_device({"a": torch.zeros(4)}, torch.float32, torch.device("cpu"))
    first, second = (ForkingPickler.loads(bytes(ForkingPickler.dumps(handle.opening()))) for _ in range(2))
    first.view(torch.float32).fill_(7.0)
    assert second.view(torch.float32).tolist() == [7.0] * 4
