"""Low-rank adapters by the real PEFT."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import PreTrainedModel

from engine.checkpoint import learner_state
from engine.config.algorithm import AlgorithmConfig
from engine.config.learner import LearnerConfig, LoraConfig
from engine.errors import ConfigError
from engine.models.load import load_model
from engine.models.weights import whole
from engine.policy.training import lora
from engine.policy.training.learner import Learner
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.sharded_policy import ShardedPolicy
from engine.policy.training.training_row import TrainingRow

MakePolicy = Callable[..., PreTrainedModel]
MakeRows = Callable[..., list[TrainingRow]]
CPU = torch.device("cpu")
ADAPTED = LearnerConfig(lora=LoraConfig(rank=4, alpha=8))


def learner(model: PreTrainedModel) -> Learner:
    return Learner(ReplicatedPolicy(model, ADAPTED, 1.0, CPU, None, True, seed=3), algorithm(), 64)


def algorithm() -> AlgorithmConfig:
    return AlgorithmConfig(learning_rate=1e-2, warmup_steps=0, kl_coefficient=0.1, tokens_per_microbatch=150, rollout_correction=0.0)


def train(subject: Learner, make_rows: MakeRows, steps: range) -> list[dict[str, float]]:
    metrics = []
    for step in steps:
        rows = make_rows(9, seed=step)
        metrics.append(subject.update(rows, subject.infer(rows), step))
    return metrics


@pytest.fixture
def peft() -> Any:
    return pytest.importorskip("peft", reason="the extra lora is not installed")


def test_without_peft_the_user_is_told(make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="install the extra lora"):
        learner(make_policy())


@pytest.mark.usefixtures("peft")
def test_only_adapters_are_trained_and_merged_weights_compute_the_same(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    subject, start = learner(make_policy()), make_policy()
    names = {name for name, _ in start.named_parameters()}
    assert set(subject.policy.weights()) == names
    assert all(torch.equal(weight, subject.policy.weights()[name]) for name, weight in start.named_parameters())
    metrics = train(subject, make_rows, range(3))
    assert metrics[0]["kl"] == pytest.approx(0, abs=1e-6)
    assert metrics[-1]["kl"] > 0
    assert all(".lora_" in name for name in subject.state()["model"])
    merged = dict(subject.policy.weights())
    changed = {name for name, weight in start.named_parameters() if not torch.equal(merged[name], weight)}
    assert changed == {name for name in names if any(f"{target}.weight" in name for target in ADAPTED.lora.targets)}  # type: ignore[union-attr]
    plain = make_policy()
    plain.load_state_dict(merged, strict=False)
    tokens = torch.arange(20)[None] % 61
    with torch.no_grad():
        torch.testing.assert_close(plain(tokens).logits, subject.policy.model(tokens).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("peft")
def test_the_reference_is_the_policy_without_adapters(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    subject, untouched, rows = learner(make_policy()), learner(make_policy()), make_rows(5)
    train(subject, make_rows, range(2))
    for found, start in zip(subject.infer(rows) or [], untouched.infer(rows) or [], strict=True):
        torch.testing.assert_close(found.reference_logprobs, start.reference_logprobs, atol=1e-6, rtol=0)
    assert subject.policy.checksum() != untouched.policy.checksum()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[dist.ProcessGroup]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    assert dist.group.WORLD
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.usefixtures("peft")
def test_shards_learn_the_same_and_go_on_from_a_replicas_checkpoint(
    random_model: Path, group: dist.ProcessGroup, make_rows: MakeRows, tmp_path: Path
) -> None:
    replica = learner(load_model(random_model, torch.float32))
    how = ADAPTED.model_copy(update={"parallel": "fsdp"})
    shards = Learner(ShardedPolicy(random_model, how, 1.0, CPU, group, True, seed=3), algorithm(), 64)
    train(replica, make_rows, range(1))
    learner_state.write(replica.state(), tmp_path / "saved", None)
    learner_state.read(shards.state(), tmp_path / "saved", group)
    expected = train(replica, make_rows, range(1, 3))
    for found, one in zip(train(shards, make_rows, range(1, 3)), expected, strict=True):
        assert found == pytest.approx(one, rel=1e-3, abs=1e-5)
    for name, weight in replica.policy.weights().items():
        torch.testing.assert_close(whole(shards.policy.weights()[name]), weight, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("peft")
def test_ranks_ask_for_shards_as_they_are_made_whole_and_not_at_a_look(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker looks at a weight several times on its way to SGLang, its further GPUs do once: else they would wait for each other."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    monkeypatch.setattr(dist, "new_group", lambda backend: dist.group.WORLD)  # noqa: ARG005 - a checkpoint's, of which there is none
    try:
        assert dist.group.WORLD
        policy = ShardedPolicy(random_model, ADAPTED.model_copy(update={"parallel": "fsdp"}), 1.0, CPU, dist.group.WORLD, False)
        with CommDebugMode() as made:  # type: ignore[no-untyped-call]
            merged = policy.weights()
        with CommDebugMode() as looked:  # type: ignore[no-untyped-call]
            shapes = {name: weight.shape for name, weight in merged.items()}
    finally:
        dist.destroy_process_group()
    assert (made.get_total_counts(), looked.get_total_counts()) == (1, 0)
    assert shapes == {name: weight.shape for name, weight in load_model(random_model, torch.float32).named_parameters()}


@pytest.mark.usefixtures("peft")
def test_an_export_is_an_ordinary_model(random_model: Path, make_rows: MakeRows, tmp_path: Path) -> None:
    subject = learner(load_model(random_model, torch.float32))
    train(subject, make_rows, range(1))
    subject.policy.export(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((random_model / "tokenizer.json").read_bytes())
    exported = dict(load_model(tmp_path, torch.float32).named_parameters())
    assert {name: weight.shape for name, weight in subject.policy.weights().items()} == {
        name: weight.shape for name, weight in exported.items()
    }
    for name, weight in subject.policy.weights().items():
        torch.testing.assert_close(exported[name].detach(), weight, atol=0, rtol=0)
