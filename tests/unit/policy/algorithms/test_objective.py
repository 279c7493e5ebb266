"""The parts of a loss together."""

import math
import sys
from pathlib import Path

import pytest
import torch

from engine.config.algorithm import ALGORITHMS, AlgorithmConfig
from engine.errors import ConfigError
from engine.policy.algorithms.losses import Tokens, truncated_weights
from engine.policy.algorithms.objective import Objective
from engine.policy.algorithms.registry import advantage, policy_loss

LENGTHS, LIMIT = (2, 3), 10


def tokens() -> Tokens:
    logprobs = torch.tensor([-1.0, -2.0, -0.5, -1.5, -3.0], dtype=torch.float64, requires_grad=True)
    return Tokens(logprobs, logprobs.detach(), torch.tensor([1.0, 1.0, -2.0, -2.0, -2.0], dtype=torch.float64), LENGTHS)


def loss(config: AlgorithmConfig, rollout: torch.Tensor | None = None, reference: torch.Tensor | None = None) -> float:
    given = tokens()
    objective = Objective(config, LIMIT)
    measured = objective(given, given.old_logprobs if rollout is None else rollout, reference)
    return (measured.loss.sum() / sum(objective.counts(length) for length in LENGTHS)).item()


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token_mean", (2 * -1 + 3 * 2) / 5),
        ("sequence_mean", (-1 + 2) / 2),
        ("sequence_sum", (2 * -1 + 3 * 2) / 2),
        ("fixed_length", (2 * -1 + 3 * 2) / 2 / LIMIT),
    ],
)
def test_how_tokens_weigh(aggregation: str, expected: float) -> None:
    """On policy each token's loss is minus its response's advantage: 1 and -2."""
    assert loss(AlgorithmConfig.model_validate({"aggregation": aggregation, "kl_coefficient": 0})) == pytest.approx(expected)


def test_the_kl_term_counts_in_the_loss_only_if_it_is_meant_to() -> None:
    reference = tokens().old_logprobs - 0.3
    k1 = {"kl": "k1", "kl_coefficient": 0.5}
    plain = loss(AlgorithmConfig(kl_coefficient=0))
    assert loss(AlgorithmConfig.model_validate(k1), reference=reference) == pytest.approx(plain + 0.5 * 0.3)
    assert loss(AlgorithmConfig.model_validate(k1 | {"kl_in": "reward"}), reference=reference) == pytest.approx(plain)


def test_correction_weights_tokens_by_how_much_likelier_they_are_in_training_up_to_the_limit() -> None:
    old = torch.tensor([-1.0, -1.0, -1.0, -1.0])
    rollout = old - torch.tensor([0.0, math.log(1.5), math.log(5), -math.log(4)])
    torch.testing.assert_close(truncated_weights(old, rollout, 2.0), torch.tensor([1.0, 1.5, 2.0, 0.25]))


def test_correction_can_be_turned_off() -> None:
    rollout = tokens().old_logprobs - math.log(1.5)
    off, on = (loss(AlgorithmConfig(kl_coefficient=0, rollout_correction=limit), rollout) for limit in (0.0, 2.0))
    assert off == pytest.approx(loss(AlgorithmConfig(kl_coefficient=0)))
    assert on == pytest.approx(1.5 * off)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_name_sets_what_its_paper_has_and_gives_way_to_what_is_set(name: str) -> None:
    config = AlgorithmConfig.model_validate({"name": name})
    assert {key: getattr(config, key) for key in ALGORITHMS[name]} == ALGORITHMS[name]
    assert AlgorithmConfig.model_validate({"name": name, "clip_low": 0.123, "loss": "score_function"}).clip_low == 0.123
    assert AlgorithmConfig.model_validate(config.model_dump()) == config
    assert math.isfinite(loss(config, reference=tokens().old_logprobs))


def test_own_functions_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from engine.policy.algorithms.losses import TokenLoss\n"
        "def doubled(rewards): return 2 * rewards\n"
        "def seven(tokens, config): return TokenLoss(7 + 0 * tokens.logprobs, tokens.logprobs > 0)\n"
        "CONSTANT = 7\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    config = AlgorithmConfig(advantage="mine:doubled", loss="mine:seven", kl_coefficient=0)
    assert advantage(config)(torch.ones(1, 2)).tolist() == [[2.0, 2.0]]
    assert loss(config) == pytest.approx(7.0)
    for wrong in ("nowhere:seven", "mine:nothing", "mine:CONSTANT"):
        with pytest.raises(ConfigError, match=r"algorithm\.loss"):
            policy_loss(AlgorithmConfig(loss=wrong))


@pytest.mark.parametrize("wrong", ["ppo", "os.system", "a b:c", "mine:do()", ":x", "x:"])
def test_anything_else_is_no_loss(wrong: str) -> None:
    with pytest.raises(ValueError, match="loss"):
        AlgorithmConfig(loss=wrong)
