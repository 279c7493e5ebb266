import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.checkpoint import learner_state
from engine.config.algorithm import AlgorithmConfig
from engine.config.learner import LearnerConfig
from engine.drafter.kind import DrafterKind
from engine.drafter.offline_training import hidden_states
from engine.errors import CheckpointError, ConfigError
from engine.models.onednn_linear import OneDNNLinear
from engine.policy.algorithms.advantages import group_normalised
from engine.policy.training.balance import balance
from engine.policy.training.learner import MOST_SKIPPED, Learner
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.training_row import Inferred, TrainingRow

MakePolicy = Callable[..., PreTrainedModel]
MakeRows = Callable[..., list[TrainingRow]]
PADDED = LearnerConfig(packed=False)


def learner(model: PreTrainedModel, temperature: float = 1.0, how: LearnerConfig | None = None, **config: Any) -> Learner:
    defaults: dict[str, Any] = {"learning_rate": 1e-2, "warmup_steps": 0, "kl_coefficient": 0.1, "tokens_per_microbatch": 150}
    off = {"rollout_correction": 0.0}  # the rows' rollout log-probs are made up
    algorithm = AlgorithmConfig(**defaults | off | config)
    policy = ReplicatedPolicy(model, how or PADDED, temperature, torch.device("cpu"), None, algorithm.kl_coefficient > 0)
    return Learner(policy, algorithm, 64)


def plain_logprobs(model: PreTrainedModel, row: TrainingRow, temperature: float = 1.0) -> Tensor:
    """The response's log-probs from the whole model on the row alone."""
    logits: Tensor = model(torch.tensor([row.tokens])).logits[0, row.prompt_length - 1 : -1] / temperature
    return logits.log_softmax(dim=-1)[torch.arange(row.response_length), torch.tensor(row.tokens[row.prompt_length :])]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("temperature", "effective"), [(1.0, 1.0), (0.6, 0.6), (0.0, 1.0)])
def test_padded_inference_equals_the_model_row_by_row(
    make_policy: MakePolicy, make_rows: MakeRows, tied: bool, temperature: float, effective: float
) -> None:
    model, rows = make_policy(tied=tied), make_rows(13)
    subject = learner(model, temperature, updates_per_step=2)
    with torch.no_grad():
        for row, found in zip(rows, subject.infer(rows) or [], strict=True):
            expected = plain_logprobs(model, row, effective)
            torch.testing.assert_close(found.logprobs, expected, atol=2e-5, rtol=1e-5)
            torch.testing.assert_close(found.reference_logprobs, expected, atol=2e-5, rtol=1e-5)


def test_a_group_is_inferred_to_the_bit_whichever_others_there_are(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    model, rows, groups = make_policy(), make_rows(9), [0, 1, 0, 2, 1, 2, 2, 0, 1]
    subject = learner(model, updates_per_step=2)
    everyone = subject.infer(rows, groups) or []
    for group in range(3):
        members = [index for index, number in enumerate(groups) if number == group]
        alone = subject.infer([rows[index] for index in members], [group] * len(members)) or []
        for index, found in zip(members, alone, strict=True):
            for name in ("logprobs", "reference_logprobs"):
                assert torch.equal(getattr(found, name), getattr(everyone[index], name))


def test_all_products_are_those_of_the_library_that_is_fast(make_policy: MakePolicy) -> None:
    model = make_policy()
    learner(model, how=LearnerConfig(packed=True))
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert layers
    assert all(isinstance(layer, OneDNNLinear) for layer in layers)


def test_inference_only_on_demand(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    rows = make_rows(3)
    assert learner(make_policy(), kl_coefficient=0).infer(rows) is None
    inferred = learner(make_policy(), kl_coefficient=0, updates_per_step=2).infer(rows)
    assert inferred is not None
    assert all(found.reference_logprobs is None for found in inferred)


def test_the_first_update_needs_the_reference_only(make_policy: MakePolicy, make_rows: MakeRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """But where the KL term is part of the reward."""
    rows, passes = make_rows(3), list[object]()
    forward = ReplicatedPolicy.forward
    monkeypatch.setattr(ReplicatedPolicy, "forward", lambda policy, batch: passes.append(batch) or forward(policy, batch))  # type: ignore[func-returns-value]
    for where in ("loss", "reward"):
        inferred = learner(make_policy(), kl_in=where).infer(rows)
        assert inferred is not None
        assert all(found.reference_logprobs is not None for found in inferred)
        assert {found.logprobs is not None for found in inferred} == {where == "reward"} == {bool(passes)}


def test_an_on_policy_update_needs_no_inference(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    """Against a learner whose KL term in the reward makes it look up the old log-probs."""
    rows = make_rows(9)
    direct, looked_up = learner(make_policy(), kl_coefficient=0), learner(make_policy(), kl_in="reward")
    expected = looked_up.update(rows, looked_up.infer(rows), 0)
    found = direct.update(rows, None, 0)
    assert "kl" not in found, "there is no reference to measure it against"
    assert found == pytest.approx({name: value for name, value in expected.items() if name != "kl"}, abs=1e-5)
    for name, weight in looked_up.policy.weights().items():
        torch.testing.assert_close(direct.policy.weights()[name], weight, atol=2e-5, rtol=1e-4)


SAME = {"packed": True}, {"packed": "auto"}, {"activation_checkpointing": True}, {"packed": True, "activation_checkpointing": True}
HOWS = {"packed": False}, {"packed": True}, {"activation_checkpointing": True}


@pytest.mark.parametrize("how", SAME, ids=str)
def test_how_an_update_is_computed_does_not_change_it(make_policy: MakePolicy, make_rows: MakeRows, how: dict[str, Any]) -> None:
    plain, other = learner(make_policy()), learner(make_policy(), how=LearnerConfig(**how))
    rows = make_rows(13)
    expected, inferred = plain.infer(rows), other.infer(rows)
    for one, found in zip(expected or [], inferred or [], strict=True):
        torch.testing.assert_close(found.reference_logprobs, one.reference_logprobs, atol=2e-5, rtol=1e-5)
    assert other.update(rows, inferred, 0) == pytest.approx(plain.update(rows, expected, 0), rel=1e-4, abs=1e-5)
    for name, weight in plain.policy.trained().items():
        torch.testing.assert_close(other.policy.trained()[name].grad, weight.grad, atol=1e-5, rtol=1e-3)


def test_bfloat16_is_for_passes_only(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    rows = make_rows(13)
    exact, rounded = learner(make_policy()), learner(make_policy(), how=LearnerConfig(packed=False, precision="bfloat16"))
    pairs = zip(exact.infer(rows) or [], rounded.infer(rows) or [], strict=True)
    gaps = [(one.reference_logprobs - other.reference_logprobs).abs().mean() for one, other in pairs]  # type: ignore[operator]
    assert 1e-5 < torch.stack(gaps).mean() < 0.05
    metrics = rounded.update(rows, rounded.infer(rows), 0)
    assert metrics["loss"] == pytest.approx(exact.update(rows, exact.infer(rows), 0)["loss"], abs=0.02)
    assert {tensor.dtype for tensor in rounded.policy.weights().values()} == {torch.float32}


@pytest.mark.parametrize("packed", [False, True])
def test_features_are_the_models_hidden_states(make_policy: MakePolicy, make_rows: MakeRows, packed: bool) -> None:
    model, rows = make_policy(), make_rows(7)
    expected = hidden_states(model, [list(row.tokens) for row in rows])
    for found, states in zip(learner(model, how=LearnerConfig(packed=packed)).features(rows, "eagle"), expected, strict=True):
        torch.testing.assert_close(found, states[:-1].bfloat16(), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
@pytest.mark.parametrize("how", HOWS, ids=["padded", "packed", "checkpoints"])
@pytest.mark.parametrize("updates", [1, 2])
def test_features_come_of_the_passes_that_are_made_anyway(
    make_policy: MakePolicy, make_rows: MakeRows, kind: DrafterKind, how: dict[str, Any], updates: int
) -> None:
    """Of the policy that wrote the responses: in the update if that is the only one, else in the inference before it."""
    model, rows = make_policy(), make_rows(7)
    expected = hidden_states(model, [list(row.tokens) for row in rows], kind)
    counts = []
    for captured in (False, True):
        taken: dict[tuple[int, ...], Tensor] = {}

        def keep(row: TrainingRow, features: Tensor, taken: dict[tuple[int, ...], Tensor] = taken) -> None:
            taken[row.tokens] = features

        subject, passes = learner(make_policy(), how=LearnerConfig(**how), updates_per_step=updates), Counter[str]()
        subject.policy.model.base_model.register_forward_hook(lambda *_, passes=passes: passes.update(["pass"]))
        if captured:
            subject.capture(kind, keep)
        subject.update(rows, subject.infer(rows), 0)
        counts.append((len(taken), passes["pass"]))
    assert counts[0] == (0, counts[1][1]), "no pass more"
    subject.capture_nothing()
    subject.update(rows, subject.infer(rows), 1)
    assert len(taken) == len(rows)
    for row, states in zip(rows, expected, strict=True):
        assert taken[row.tokens].dtype == torch.bfloat16
        torch.testing.assert_close(taken[row.tokens], states[:-1].bfloat16(), atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("updates", [1, 2])
def test_features_of_one_pass_are_there_at_a_time(make_policy: MakePolicy, make_rows: MakeRows, updates: int) -> None:
    """Those of a step, of 7 B to 32 k tokens, are more than a host has memory for; whoever gets them may drop them."""
    subject, got = learner(make_policy(), updates_per_step=updates), list[weakref.ref[torch.Tensor]]()
    alive = []

    def drop(_: TrainingRow, features: torch.Tensor) -> None:
        got.append(weakref.ref(features))
        alive.append(sum(each() is not None for each in got))

    subject.capture("eagle", drop)
    rows = make_rows(9)
    subject.update(rows, subject.infer(rows), 0)
    assert alive == [1] * len(rows)


def naive_step(
    model: PreTrainedModel, start: PreTrainedModel, rows: list[TrainingRow], step: int, optimizer: torch.optim.Optimizer
) -> Tensor:
    """One on-policy GRPO step written from the formulas, without batches; returns the loss."""
    losses = []
    for row in rows:
        new = plain_logprobs(model, row)
        with torch.no_grad():
            difference = plain_logprobs(start, row) - new.detach()
        ratio = (new - new.detach()).exp()
        kl = (difference + new.detach() - new).exp() - (difference + new.detach() - new) - 1
        losses.append(-ratio * row.advantage + 0.1 * kl)
    loss = torch.cat(losses).mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.param_groups[0]["lr"] = 1e-2 * min(1.0, (step + 1) / 3)
    optimizer.step()
    return loss.detach()


def test_updates_equal_a_naive_implementation(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    model, naive, start = make_policy(), make_policy(), make_policy()
    optimizer = torch.optim.AdamW(naive.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.0)
    subject = learner(model, warmup_steps=2)
    for step in range(3):
        rows = make_rows(11, seed=step)
        metrics = subject.update(rows, subject.infer(rows), step)
        assert metrics["loss"] == pytest.approx(naive_step(naive, start, rows, step, optimizer).item(), abs=1e-5)
        assert metrics["clip_share"] == 0
    for name, weight in naive.named_parameters():
        torch.testing.assert_close(subject.policy.weights()[name], weight.detach(), atol=2e-5, rtol=1e-4)
    assert metrics["kl"] > 0


def test_metrics_are_means_over_response_tokens(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    model, rows = make_policy(), make_rows(9)
    gaps, entropies = [], []
    with torch.no_grad():
        for row in rows:
            gaps.append((torch.tensor(row.rollout_logprobs) - plain_logprobs(model, row)).abs())
            law = torch.distributions.Categorical(logits=model(torch.tensor([row.tokens])).logits[0, row.prompt_length - 1 : -1])
            entropies.append(law.entropy())  # type: ignore[no-untyped-call]
    subject = learner(model)
    metrics = subject.update(rows, subject.infer(rows), 0)
    assert metrics["logprob_gap"] == pytest.approx(torch.cat(gaps).mean().item(), rel=1e-5)
    assert metrics["entropy"] == pytest.approx(torch.cat(entropies).mean().item(), rel=1e-5)
    assert set(metrics) == {"loss", "kl", "entropy", "clip_share", "gradient_norm", "logprob_gap", "learning_rate"}


def test_masked_rows_and_rows_without_a_gradient_leave_no_trace(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    rows = [replace(row, advantage=row.advantage if index % 3 else 0.0) for index, row in enumerate(make_rows(12))]
    masked = [replace(row, masked=True) for row in make_rows(5, seed=1)]
    alone, together = learner(make_policy(), kl_coefficient=0), learner(make_policy(), kl_coefficient=0)
    expected = alone.update(rows, alone.infer(rows), 0)
    found = together.update(rows + masked, together.infer(rows + masked), 0)
    assert found["loss"] == pytest.approx(expected["loss"], abs=1e-6)
    assert found["gradient_norm"] == pytest.approx(expected["gradient_norm"], rel=1e-4)
    with_kl = learner(make_policy(), kl_coefficient=1e-12)
    with_kl.update(rows, with_kl.infer(rows), 0)
    for name, weight in alone.policy.weights().items():
        torch.testing.assert_close(together.policy.weights()[name], weight, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(with_kl.policy.weights()[name], weight, atol=2e-5, rtol=1e-4)


def test_only_masked_rows_change_nothing(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    subject = learner(make_policy())
    before = subject.policy.checksum()
    rows = [replace(row, masked=True) for row in make_rows(3)]
    metrics = subject.update(rows, subject.infer(rows), 0)
    assert set(metrics) == {"learning_rate"}, "what nobody has measured is not told"
    assert subject.policy.checksum() == before


def test_later_updates_of_a_step_leave_the_old_policy_and_are_clipped(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    rows = make_rows(12)
    several = learner(make_policy(), updates_per_step=4, clip_low=0.01, clip_high=0.01)
    assert several.update(rows, several.infer(rows), 0)["clip_share"] > 0.1
    assert several.state()["optimizer"][0]["step"].item() == 4


def test_fewer_rows_than_updates_make_fewer_optimizer_steps(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    rows = make_rows(2)
    subject = learner(make_policy(), updates_per_step=4)
    subject.update(rows, subject.infer(rows), 0)
    assert subject.state()["optimizer"][0]["step"].item() == 2


def test_no_rows_change_nothing(make_policy: MakePolicy) -> None:
    subject = learner(make_policy())
    before = subject.policy.checksum()
    metrics = subject.update([], subject.infer([]), 0)
    assert set(metrics) == {"learning_rate"}
    assert subject.policy.checksum() == before


def spoilt(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """Whose gradient is not a number."""
    return [TrainingRow(row.tokens, row.prompt_length, float("nan"), row.rollout_logprobs) for row in rows]


def test_an_update_whose_gradient_is_not_a_number_is_left_out_but_not_again_and_again(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    subject, rows = learner(make_policy()), make_rows(3)
    before = subject.policy.checksum()
    for _ in range(2):
        for step in range(MOST_SKIPPED):
            assert set(subject.update(spoilt(rows), subject.infer(rows), step)) == {"learning_rate", "skipped_updates"}
        assert subject.policy.checksum() == before
        assert "skipped_updates" not in subject.update(rows, subject.infer(rows), 0)
        before = subject.policy.checksum()
    for step in range(MOST_SKIPPED):
        subject.update(spoilt(rows), subject.infer(rows), step)
    told = r"^algorithm\.learning_rate: with 0\.01 the gradient norm .* nan, the 4th time in a row: .*; lower it, and begin anew$"
    with pytest.raises(ConfigError, match=told):
        subject.update(spoilt(rows), subject.infer(rows), MOST_SKIPPED)
    assert subject.policy.checksum() == before


def test_what_is_left_out_counts_for_nothing(make_policy: MakePolicy, make_rows: MakeRows) -> None:
    subject, rows = learner(make_policy(), updates_per_step=2), make_rows(4)
    _, others = balance([len(row.tokens) for row in rows], 2)
    mixed = [spoilt([row])[0] if index in others else row for index, row in enumerate(rows)]
    before = subject.policy.checksum()
    metrics = subject.update(mixed, subject.infer(rows), 0)
    assert metrics["skipped_updates"] == 1
    assert all(map(isfinite, metrics.values()))
    assert subject.policy.checksum() != before


def test_a_saved_state_goes_on_bit_for_bit_with_the_start_policy_as_reference(
    make_policy: MakePolicy, make_rows: MakeRows, tmp_path: Path
) -> None:
    def train(subject: Learner, steps: range) -> list[Inferred]:
        for step in steps:
            rows = make_rows(8, seed=step)
            inferred = subject.infer(rows)
            subject.update(rows, inferred, step)
        assert inferred is not None
        return inferred

    straight = learner(make_policy(), warmup_steps=5, updates_per_step=2)
    train(straight, range(2))
    learner_state.write(straight.state(), tmp_path, None)
    resumed = learner(make_policy(), warmup_steps=5, updates_per_step=2)
    learner_state.read(resumed.state(), tmp_path, None)
    for one, other in zip(train(straight, range(2, 5)), train(resumed, range(2, 5)), strict=True):
        torch.testing.assert_close(one.reference_logprobs, other.reference_logprobs, rtol=0, atol=0)
        assert one.reference_logprobs is not None
        assert one.logprobs is not None
        assert not torch.equal(one.logprobs, one.reference_logprobs)
    assert resumed.policy.checksum() == straight.policy.checksum()


def test_the_state_of_another_model_is_refused(make_policy: MakePolicy, tmp_path: Path) -> None:
    subject = learner(make_policy())
    before = subject.policy.checksum()
    learner_state.write(learner(make_policy(tied=False)).state(), tmp_path, None)
    with pytest.raises(CheckpointError, match="another model"):
        learner_state.read(subject.state(), tmp_path, None)
    with pytest.raises(CheckpointError, match="earlier version"):
        learner_state.read(subject.state(), tmp_path / "nowhere", None)
    assert subject.policy.checksum() == before


def test_weights_are_the_models_own_and_named_as_saved(make_policy: MakePolicy) -> None:
    model = make_policy()
    weights = learner(model).policy.weights()
    assert "lm_head.weight" not in weights
    assert weights["model.embed_tokens.weight"].data_ptr() == model.get_input_embeddings().weight.data_ptr()  # type: ignore[operator]


@torch.no_grad()
def sample(model: PreTrainedModel, prompt: tuple[int, ...], count: int, length: int) -> tuple[Tensor, Tensor]:
    """Tokens [count, prompt + length] and the log-probs [count, length] of the sampled ones."""
    tokens, logprobs = torch.tensor(prompt).repeat(count, 1), []
    for _ in range(length):
        law = torch.distributions.Categorical(logits=model(tokens).logits[:, -1])
        drawn = law.sample()  # type: ignore[no-untyped-call]
        logprobs.append(law.log_prob(drawn))  # type: ignore[no-untyped-call]
        tokens = torch.cat([tokens, drawn[:, None]], dim=1)
    return tokens, torch.stack(logprobs, dim=1)


def test_the_mean_reward_rises(make_policy: MakePolicy) -> None:
    model, wanted, means = make_policy(seed=3), 17, []
    subject = learner(model, learning_rate=3e-3, kl_coefficient=0.001, tokens_per_microbatch=512)
    for step in range(25):
        tokens, logprobs = sample(model, (5, 9), count=64, length=8)
        rewards = (tokens[:, 2:] == wanted).any(dim=1).float()
        advantages = group_normalised(rewards.view(4, 16)).flatten().tolist()
        rows = [
            TrainingRow(tuple(line), 2, advantage, tuple(old))
            for line, advantage, old in zip(tokens.tolist(), advantages, logprobs.tolist(), strict=True)
        ]
        metrics = subject.update(rows, subject.infer(rows), step)
        assert metrics["logprob_gap"] < 1e-4
        means.append(rewards.mean().item())
    assert sum(means[:3]) / 3 < 0.4
    assert sum(means[-3:]) / 3 > sum(means[:3]) / 3 + 0.4
