"""The learner over real processes: replicas and shards of the policy, and checkpoints that any number of workers can go on from."""

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

from engine.checkpoint import learner_state
from engine.cluster.devices import show_gpus
from engine.config.algorithm import AlgorithmConfig
from engine.config.learner import LearnerConfig
from engine.drafter.kind import DrafterKind
from engine.drafter.offline_training import hidden_states
from engine.models.load import load_model
from engine.models.weights import gathered, whole
from engine.policy.training.learner import Learner
from engine.policy.training.policy import Policy
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.sharded_policy import ShardedPolicy
from engine.policy.training.training_row import TrainingRow
from engine.rollout.sglang.weight_transfer import fill_bucket, plan_buckets

VOCABULARY, STEPS, SAVED = 259, 5, 2
CPU = torch.device("cpu")
ALL = slice(0, 7), slice(7, 10)
NONE = slice(0, 10), slice(0, 0)
FSDP: dict[str, Any] = {"parallel": "fsdp"}
EVERYTHING: dict[str, Any] = FSDP | {"packed": True, "activation_checkpointing": True, "cpu_offload": True}

# The rows that each of two workers has, and what differs in the configuration of algorithm and learner.
Scenario = tuple[tuple[slice, slice], dict[str, Any], dict[str, Any]]
SCENARIOS: dict[str, Scenario] = {
    "uneven": (ALL, {}, {}),
    "one without rows": (NONE, {}, {}),
    "more updates than rows": ((slice(0, 9), slice(9, 10)), {"updates_per_step": 4}, {}),
    "shards": (ALL, {}, FSDP),
    "shards, one without rows": (NONE, {}, FSDP),
    "shards, with everything": (ALL, {}, EVERYTHING),
    "shards, bfloat16": (ALL, {}, FSDP | {"precision": "bfloat16"}),
}
BUCKET = 2**16
PATIENCE = timedelta(minutes=2)
"""With a worker that was to take part in something and does not."""
LORA = {"lora": {"rank": 4, "alpha": 64}}
UNEVEN = {f"{rows} rows": torch.arange(rows * 3.0).reshape(rows, 3) for rows in (1, 2, 5)} | {"flat": torch.arange(7.0)}
EXACT = [name for name in SCENARIOS if name not in ("more updates than rows", "shards, bfloat16")]


def make_learner(model: Path, group: dist.ProcessGroup | None = None, how: dict[str, Any] | None = None, **config: Any) -> Learner:
    defaults: dict[str, Any] = {"learning_rate": 1e-3, "warmup_steps": 1, "kl_coefficient": 0.1, "tokens_per_microbatch": 150}
    learner = LearnerConfig(**how or {})
    policy: Policy
    if learner.parallel == "fsdp":
        assert group is not None
        policy = ShardedPolicy(model, learner, 1.0, CPU, group, True)
    else:
        policy = ReplicatedPolicy(load_model(model, torch.float32), learner, 1.0, CPU, group, True)
    return Learner(policy, AlgorithmConfig(**defaults | config), 64)


def rows_of(step: int) -> list[TrainingRow]:
    draw = torch.Generator().manual_seed(step)
    rows = []
    for _ in range(10):
        prompt, response = (int(torch.randint(1, high, (), generator=draw)) for high in (9, 60))
        tokens = torch.randint(VOCABULARY, (prompt + response,), generator=draw).tolist()
        rows.append(TrainingRow(tuple(tokens), prompt, float(torch.randn((), generator=draw)), (-4.0,) * response))
    return rows


def train(learner: Learner, steps: range, share: slice = slice(None)) -> list[dict[str, float]]:
    metrics = []
    for step in steps:
        rows = rows_of(step)[share]
        metrics.append(learner.update(rows, learner.infer(rows), step))
    return metrics


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: whole(weight).clone() for name, weight in learner.policy.weights().items()}


def sent(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What SGLang finds in the buckets."""
    found: dict[str, torch.Tensor] = {}
    for bucket in plan_buckets(weights, torch.bfloat16, BUCKET):
        memory = torch.zeros(bucket.bytes, dtype=torch.uint8)
        fill_bucket(bucket, weights, memory)
        found |= {span.name: memory[span.start : span.end].view(span.dtype).view(span.shape) for span in bucket.tensors}
    return found


def join(rank: int, workers: int, folder: Path) -> dist.ProcessGroup:
    torch.set_num_threads(1)
    store = f"file://{folder}/store{workers}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=workers, timeout=PATIENCE)
    assert dist.group.WORLD
    return dist.group.WORLD


def pair(rank: int, model: Path, folder: Path) -> None:
    """One of two workers, in every scenario; checkpoints after step SAVED."""
    group = join(rank, 2, folder)
    results = {}
    for name, (shares, config, how) in SCENARIOS.items():
        learner = make_learner(model, group, how, **config)
        metrics = train(learner, range(SAVED + 1), shares[rank])
        if learner.policy.saves:
            learner_state.write(learner.state(), folder / name, learner.policy.saving_group)
        metrics += train(learner, range(SAVED + 1, STEPS), shares[rank])
        results[name] = {"weights": weights(learner), "checksum": learner.policy.checksum(), "metrics": metrics}
    shards = make_learner(model, group, FSDP).policy.weights()
    if rank == 0:  # as a worker
        results["sent"] = {"weights": sent(shards)}
    else:  # as its partner
        results["gathered"] = {"weights": dict(gathered(shards, torch.bfloat16, BUCKET))}
    if find_spec("peft"):
        adapted = make_learner(model, group, FSDP | LORA)
        train(adapted, range(2))
        merged = adapted.policy.weights()
        results["adapted"] = {"weights": sent(merged) if rank == 0 else dict(gathered(merged, torch.bfloat16, BUCKET))}
        results["adapted, whole"] = {"weights": weights(adapted)}
    mesh = DeviceMesh.from_group(group, "cpu")
    uneven = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in UNEVEN.items()}
    results["parts"] = {"weights": dict(gathered(uneven | {"no shard": torch.ones(2)}, torch.float32))}
    os.environ["CUDA_VISIBLE_DEVICES"] = str(6 + rank)  # as Ray has it
    show_gpus(2, rank, torch.device("cuda"))
    results["gpus"] = {"of a worker of two": os.environ["CUDA_VISIBLE_DEVICES"]}
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two workers have left what they found."""
    folder = tmp_path_factory.mktemp("workers")
    torch.multiprocessing.spawn(pair, args=(random_model, folder), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]
    return folder


@pytest.fixture(scope="module")
def workers(folder: Path) -> list[dict[str, Any]]:
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[dist.ProcessGroup]:
    """A group of this process only."""
    yield join(0, 1, tmp_path)
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def undisturbed(random_model: Path) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
    """What one worker with the whole policy learns."""
    learner = make_learner(random_model)
    metrics = train(learner, range(STEPS))
    return weights(learner), metrics


@pytest.mark.parametrize("scenario", EXACT)
def test_workers_together_learn_what_one_learns_alone(undisturbed: Any, workers: list[dict[str, Any]], scenario: str) -> None:
    expected, metrics = undisturbed
    for results in workers:
        torch.testing.assert_close(results[scenario]["weights"], expected, atol=1e-5, rtol=0)
        for mine, one in zip(results[scenario]["metrics"], metrics, strict=True):
            assert mine == pytest.approx(one, rel=1e-3, abs=1e-5)


@pytest.mark.skipif(find_spec("peft") is None, reason="the extra lora is not installed")
def test_a_worker_and_its_partner_put_adapted_shards_together_alike(workers: list[dict[str, Any]]) -> None:
    """Though the worker looks at each of them more often than its partner does."""
    for results in workers:
        expected = {name: weight.bfloat16() for name, weight in results["adapted, whole"]["weights"].items()}
        torch.testing.assert_close(results["adapted"]["weights"], expected, atol=0, rtol=0)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_workers_hold_the_same_bits(workers: list[dict[str, Any]], scenario: str) -> None:
    first, second = (results[scenario] for results in workers)
    assert first["checksum"] == second["checksum"]
    assert first["metrics"] == second["metrics"]
    torch.testing.assert_close(first["weights"], second["weights"], atol=0, rtol=0)


def test_shards_of_two_learn_what_the_shard_of_one_does(
    random_model: Path, alone: dist.ProcessGroup, workers: list[dict[str, Any]]
) -> None:
    learner = make_learner(random_model, alone, FSDP)
    metrics = train(learner, range(STEPS))
    torch.testing.assert_close(workers[0]["shards"]["weights"], weights(learner), atol=1e-5, rtol=0)
    for two, one in zip(workers[0]["shards"]["metrics"], metrics, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], abs=1e-5)


def test_bfloat16_shards_learn_nearly_the_same_with_float32_weights(undisturbed: Any, workers: list[dict[str, Any]]) -> None:
    expected, metrics = undisturbed
    found = workers[0]["shards, bfloat16"]
    assert {weight.dtype for weight in found["weights"].values()} == {torch.float32}
    assert not torch.equal(found["weights"]["model.norm.weight"], expected["model.norm.weight"])
    torch.testing.assert_close(found["weights"], expected, atol=2 * STEPS * 1e-3, rtol=0)  # what Adam can move a weight
    assert found["metrics"][0]["loss"] == pytest.approx(metrics[0]["loss"], abs=0.01)


@pytest.mark.parametrize("how", [{}, FSDP], ids=["whole", "shards"])
@pytest.mark.parametrize("saved", ["uneven", "shards"])
def test_one_worker_goes_on_where_two_left_off(
    random_model: Path, folder: Path, alone: dist.ProcessGroup, undisturbed: Any, saved: str, how: dict[str, Any]
) -> None:
    expected, metrics = undisturbed
    learner = make_learner(random_model, alone if how else None, how)
    learner_state.read(learner.state(), folder / saved, learner.policy.saving_group)
    for mine, one in zip(train(learner, range(SAVED + 1, STEPS)), metrics[SAVED + 1 :], strict=True):
        assert mine == pytest.approx(one, rel=1e-3, abs=1e-5)
    torch.testing.assert_close(weights(learner), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_shards_read_responses_for_the_drafter(random_model: Path, alone: dist.ProcessGroup, kind: DrafterKind) -> None:
    rows = rows_of(0)
    expected = hidden_states(load_model(random_model, torch.float32), [list(row.tokens) for row in rows], kind)
    for found, states in zip(make_learner(random_model, alone, EVERYTHING).features(rows, kind), expected, strict=True):
        torch.testing.assert_close(found, states[:-1].bfloat16(), atol=1e-2, rtol=1e-2)


def test_shards_reach_sglang_whole(random_model: Path, workers: list[dict[str, Any]]) -> None:
    """A worker's engine has no part of another rank's, which helps to put them together."""
    model = load_model(random_model, torch.float32)
    for found in (workers[0]["sent"]["weights"], workers[1]["gathered"]["weights"]):
        assert set(found) == {name for name, _ in model.named_parameters()}
        assert all(torch.equal(weight, model.get_parameter(name).to(torch.bfloat16)) for name, weight in found.items())


def test_shards_of_uneven_size_are_put_together(workers: list[dict[str, Any]]) -> None:
    for worker in workers:
        found = worker["parts"]["weights"]
        assert torch.equal(found.pop("no shard"), torch.ones(2))
        assert found.keys() == UNEVEN.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in UNEVEN.items())


def test_what_a_worker_starts_sees_the_gpus_of_all_its_ranks(workers: list[dict[str, Any]]) -> None:
    assert [results["gpus"]["of a worker of two"] for results in workers] == ["6,7", "6,7"]
