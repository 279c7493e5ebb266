"""Weights for an SGLang on the same GPU: on a CPU, where torch shares memory of the host in the same way."""

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from second_rank import second_rank, shared_by_name
from torch.multiprocessing.reductions import rebuild_cuda_tensor

from engine.rollout.sglang.tensor_handle import TensorHandle
from engine.rollout.sglang.weight_transfer import on_device

SMALL = 64
"""Bytes of a bucket."""

PASS_ON = """
import pickle, sys
from multiprocessing.reduction import ForkingPickler
handle = pickle.load(sys.stdin.buffer)
opened = [line for line in open("/proc/self/maps") if "/torch_" in line]
assert not opened, opened
sys.stdout.buffer.write(bytes(ForkingPickler.dumps({"flattened_tensor": handle.opening()})))
"""


GIVE = f"""
import sys, torch
import torch.distributed as dist
from engine.rollout.sglang.weight_transfer import on_device
dist.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2)
weights = {{name: torch.full((16,), 1.0 + place) for place, name in enumerate("abc")}}
for _ in on_device(weights, torch.float32, torch.device("cpu"), dist.group.WORLD, {SMALL}):
    pass
"""


@pytest.fixture(autouse=True)
def by_name() -> Iterator[None]:
    with shared_by_name():
        yield


def test_a_bucket_goes_through_a_process_that_does_not_open_it() -> None:
    weights = {"a": torch.randn(3, 5), "b": torch.randn(40), "c": torch.randn(2, 2)}
    found = {}
    for bucket, last, (handle,) in on_device(weights, torch.bfloat16, torch.device("cpu")):
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
    ((_, _, (handle,)),) = on_device({"a": torch.zeros(4)}, torch.float32, torch.device("cpu"))
    first, second = (ForkingPickler.loads(bytes(ForkingPickler.dumps(handle.opening()))) for _ in range(2))
    first.view(torch.float32).fill_(7.0)
    assert second.view(torch.float32).tolist() == [7.0] * 4


def test_who_opens_it_counts_the_gpu_as_its_own() -> None:
    """A rank of the learner sees its GPU alone, SGLang's all of the worker's."""
    arguments = (torch.Tensor, (4,), (1,), 0, torch.UntypedStorage, torch.float32, 0, b"handle", 16, 0, False, b"counter", 0, b"", False)
    rebuild, opened = TensorHandle(rebuild_cuda_tensor, arguments).opening(3).__reduce__()
    assert rebuild is rebuild_cuda_tensor
    assert opened == (*arguments[:6], 3, *arguments[7:])


def test_each_rank_fills_a_bucket_of_its_own_and_waits_until_all_were_opened(tmp_path: Path) -> None:
    """The other rank's weights are one more than ours; it fills its memory again only when the first one is done with it."""
    weights = {name: torch.full((16,), float(place)) for place, name in enumerate("abc")}
    found: list[list[float]] = []
    with second_rank(GIVE, rendezvous := f"file://{tmp_path}/rendezvous"):
        dist.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=2)
        for _, _, handles in on_device(weights, torch.float32, torch.device("cpu"), dist.group.WORLD, SMALL):
            time.sleep(0.3)  # it would be overwritten by now
            opened = [ForkingPickler.loads(bytes(ForkingPickler.dumps(handle.opening()))) for handle in handles]
            found += [torch.cat([flat.view(torch.float32).unique() for flat in opened]).tolist()]
    assert found == [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
