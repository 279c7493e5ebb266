"""The learner's way through CUDA, on a GPU that is emulated: it computes what it does on a CPU, alone and as one of 64 ranks, no operation
has tensors of two devices, and the host waits where it must know a number and nowhere else."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from sizes import first
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import PreTrainedModel

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.faults import MixedDevicesError
from engine.bench.emulated_cuda.memory import CUDA
from engine.config.algorithm import AlgorithmConfig
from engine.config.learner import LearnerConfig
from engine.policy.algorithms.objective import Objective
from engine.policy.training.learner import Learner
from engine.policy.training.microbatches import Microbatch
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.sharded_policy import ShardedPolicy
from engine.policy.training.training_row import TrainingRow

MakePolicy = Callable[..., PreTrainedModel]
MakeRows = Callable[..., list[TrainingRow]]
CPU, RANKS, UPDATES = torch.device("cpu"), 64, 2
ALGORITHM = AlgorithmConfig(
    learning_rate=1e-6, warmup_steps=0, kl_coefficient=0.1, tokens_per_microbatch=100, updates_per_step=UPDATES, rollout_correction=0.0
)
ON_POLICY = ALGORITHM.model_copy(update={"kl_coefficient": 0.0})
PACKED = LearnerConfig(packed=True, precision="float32")
HOWS = {
    "packed": PACKED,
    "padded": LearnerConfig(packed=False, precision="float32"),
    "bfloat16": LearnerConfig(packed=True, precision="bfloat16"),
    "activations computed again": LearnerConfig(packed=True, precision="float32", activation_checkpointing=True),
}
BFLOAT16 = 2**-5
"""A unit in the last place of logits of 4 to 8: a CPU that multiplies it adds up in an order that depends on where the numbers lie."""
WAITS = {"policy/training/flat_gradients.py": UPDATES, "policy/training/learner.py": 1}
"""For the norm of each update's gradients, and for what an update tells."""


@pytest.fixture
def world() -> Iterator[dist.ProcessGroup]:
    """64 ranks, of which there is the first: what is sent comes back as it is."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    assert dist.group.WORLD
    yield dist.group.WORLD
    dist.destroy_process_group()


def learner(model: PreTrainedModel, device: torch.device, how: LearnerConfig = PACKED, group: dist.ProcessGroup | None = None) -> Learner:
    return Learner(ReplicatedPolicy(model, how, 1.0, device, group, with_reference=True), ALGORITHM, 64)


def check(ours: Learner, other: Learner, rows: Sequence[TrainingRow], device: EmulatedCuda, rounding: float = 1e-5) -> Counter[str]:
    """That both infer and update alike, but for ``rounding``; by file, how often the host waits in ``ours``' update."""
    inferred, expected = ours.infer(rows), other.infer(rows)
    for found, one in zip(inferred or [], expected or [], strict=True):
        torch.testing.assert_close(
            (found.logprobs, found.reference_logprobs), (one.logprobs, one.reference_logprobs), atol=rounding, rtol=rounding
        )
    device.forget()
    metrics = ours.update(rows, inferred, 0)
    waits = waiting(device)
    assert metrics == pytest.approx(other.update(rows, expected, 0), rel=max(1e-4, rounding), abs=rounding / 10)
    for name, weight in other.policy.trained().items():
        gradient = ours.policy.trained()[name].grad
        assert gradient is not None
        assert weight.grad is not None
        assert (gradient.cpu() - weight.grad).norm() <= rounding * weight.grad.norm()
    assert ours.policy.checksum()
    return waits


def waiting(device: EmulatedCuda) -> Counter[str]:
    """How often the host has waited, by file."""
    found: Counter[str] = Counter()
    for place, count in device.syncs.items():
        found[place.rpartition(" ")[2].partition(":")[0]] += count
    return found


@pytest.mark.parametrize("how", first(2, list(HOWS)))
def test_an_update_is_the_cpu_s_and_waits_for_numbers_alone(make_policy: MakePolicy, make_rows: MakeRows, how: str) -> None:
    rows, other = make_rows(9), learner(make_policy(), CPU, HOWS[how])
    with EmulatedCuda() as device:
        waits = check(learner(make_policy(), CUDA, HOWS[how]), other, rows, device, BFLOAT16 if how == "bfloat16" else 1e-5)
    by_transformers = waits.pop("policy/training/network.py", 0)  # which looks whether padded rows are packed
    assert bool(by_transformers) == (how == "padded")
    assert waits == WAITS


def test_one_of_64_ranks_updates_as_the_cpu_does(make_policy: MakePolicy, make_rows: MakeRows, world: dist.ProcessGroup) -> None:
    rows, other = make_rows(5), learner(make_policy(), CPU, group=world)
    with EmulatedCuda() as device:
        waits = check(learner(make_policy(), CUDA, group=world), other, rows, device)
    assert waits == WAITS | {"policy/training/learner.py": 2}, "sums over the ranks: the rows' before, and those of what it tells"


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("offload", first(1, [False, True]), ids=lambda offload: "offloaded" if offload else "on the GPU")
def test_a_shard_of_64_is_trained_as_on_the_cpu(
    random_model: Path, make_rows: MakeRows, monkeypatch: pytest.MonkeyPatch, offload: bool
) -> None:
    """What is gathered of the others is this rank's own, on both. FSDP's streams wait for each other. Offloaded, gradients are waited for,
    too: the second update is of weights that the host has changed."""
    monkeypatch.setattr(dist, "new_group", lambda backend: dist.group.WORLD)  # noqa: ARG005 - a checkpoint's, of which there is none
    how = LearnerConfig(parallel="fsdp", packed=True, precision="float32", cpu_offload=offload)
    rows, metrics = make_rows(5), []
    with EmulatedCuda() as device:
        for where in (CPU, CUDA):
            assert dist.group.WORLD
            subject = Learner(ShardedPolicy(random_model, how, 1.0, where, dist.group.WORLD, with_reference=False), ON_POLICY, 64)
            device.forget()
            metrics.append(subject.update(rows, None, 0))
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-4, abs=1e-6)
    if not offload:
        assert waiting(device) == {
            "policy/training/learner.py": 2,
            "policy/training/sharded_policy.py": 2 * UPDATES,
        }, "the last of them for the norms, and to learn how many passes all must take part in"


def test_values_left_on_the_host_are_caught(make_policy: MakePolicy, make_rows: MakeRows, monkeypatch: pytest.MonkeyPatch) -> None:
    join = Microbatch.join
    monkeypatch.setattr(Microbatch, "join", lambda batch, values: join(batch, values).cpu())
    with EmulatedCuda(), pytest.raises(MixedDevicesError):
        learner(make_policy(), CUDA).update(make_rows(3), None, 0)


def test_a_wait_in_each_micro_batch_is_seen(make_policy: MakePolicy, make_rows: MakeRows, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Objective.__call__
    monkeypatch.setattr(Objective, "__call__", lambda *given: (given[1].logprobs.sum().item(), apply(*given))[1])
    with EmulatedCuda() as device:
        subject = learner(make_policy(), CUDA)
        device.forget()
        subject.update(make_rows(9), None, 0)
    assert waiting(device).total() > sum(WAITS.values()) + UPDATES
