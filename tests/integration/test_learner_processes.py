"""The learner over real processes: data-parallel updates and resume from disk."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

from engine import checkpoint
from engine.policy.batch import Row
from engine.policy.config import AlgorithmConfig
from engine.policy.learner import Learner

VOCABULARY, STEPS = 259, 3

# The rows that each of two workers has, and what differs in the configuration.
SCENARIOS: dict[str, tuple[tuple[slice, slice], dict[str, Any]]] = {
    "uneven": ((slice(0, 7), slice(7, 10)), {}),
    "one without rows": ((slice(0, 10), slice(0, 0)), {}),
    "more updates than rows": ((slice(0, 9), slice(9, 10)), {"updates_per_step": 4}),
}


def make_learner(model: Path, group: dist.ProcessGroup | None = None, **config: Any) -> Learner:
    defaults: dict[str, Any] = {"learning_rate": 1e-3, "warmup_steps": 1, "kl_coefficient": 0.1, "tokens_per_microbatch": 150}
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="sdpa")
    return Learner(policy, AlgorithmConfig(**defaults | config), 1.0, 64, "cpu", group)


def rows_of(step: int) -> list[Row]:
    draw = torch.Generator().manual_seed(step)
    rows = []
    for _ in range(10):
        prompt, response = (int(torch.randint(1, high, (), generator=draw)) for high in (9, 60))
        tokens = torch.randint(VOCABULARY, (prompt + response,), generator=draw).tolist()
        rows.append(Row(tuple(tokens), prompt, float(torch.randn((), generator=draw)), (-4.0,) * response))
    return rows


def train(learner: Learner, steps: range, share: slice = slice(None)) -> list[dict[str, float]]:
    metrics = []
    for step in steps:
        rows = rows_of(step)[share]
        metrics.append(learner.update(rows, learner.infer(rows), step))
    return metrics


def worker(rank: int, model: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    results = {}
    for name, (shares, config) in SCENARIOS.items():
        learner = make_learner(model, dist.group.WORLD, **config)
        metrics = train(learner, range(STEPS), shares[rank])
        results[name] = {"weights": learner.weights(), "checksum": learner.checksum(), "metrics": metrics}
    torch.save(results, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def workers(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two workers found in every scenario."""
    folder = tmp_path_factory.mktemp("workers")
    torch.multiprocessing.spawn(worker, args=(random_model, folder), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("scenario", ["uneven", "one without rows"])
def test_workers_together_learn_what_one_learns_alone(random_model: Path, workers: list[dict[str, Any]], scenario: str) -> None:
    alone = make_learner(random_model)
    expected = train(alone, range(STEPS))
    for results in workers:
        torch.testing.assert_close(results[scenario]["weights"], alone.weights(), atol=1e-5, rtol=0)
        for mine, one in zip(results[scenario]["metrics"], expected, strict=True):
            assert mine == pytest.approx(one, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_all_workers_hold_the_same_bits(workers: list[dict[str, Any]], scenario: str) -> None:
    first, second = (results[scenario] for results in workers)
    assert first["checksum"] == second["checksum"]
    assert first["metrics"] == second["metrics"]


def test_a_run_resumed_from_disk_is_the_uninterrupted_run(random_model: Path, tmp_path: Path) -> None:
    straight = make_learner(random_model)
    train(straight, range(2))
    state = straight.state()
    checkpoint.save(tmp_path, 1, {"policy.safetensors": state["model"], "optimizer.pt": state["optimizer"]})
    expected = train(straight, range(2, 5))
    found = checkpoint.latest(tmp_path)
    assert found is not None
    resumed = make_learner(random_model)
    resumed.load_state({"model": found.read("policy.safetensors"), "optimizer": found.read("optimizer.pt")})
    assert train(resumed, range(found.step + 1, 5)) == expected
    assert resumed.checksum() == straight.checksum()
