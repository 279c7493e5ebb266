"""What ``bench tail`` says of its runs, and how it compares policies."""

import shutil
from math import log
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.bench import tail
from engine.bench.policy_distance import PolicyDistance
from engine.events import AnyEvent, StepFinished
from engine.models.load import load_model
from engine.rollout.interface import Request, Sampling

PROMPTS = [(3, 4, 5), (6, 7)]


@torch.inference_mode()
def test_a_policy_that_knows_nothing_is_as_far_as_the_entropy_of_the_other_falls_short(random_model: Path, tmp_path: Path) -> None:
    even = tmp_path / "even"
    shutil.copytree(random_model, even)
    (file,) = even.glob("*.safetensors")
    weights = load_file(file)
    weights["model.norm.weight"].zero_()  # so that all tokens are equally likely
    save_file(weights, file, {"format": "pt"})
    distance = PolicyDistance(random_model, PROMPTS, Sampling(max_new_tokens=12, seed=1))
    model = load_model(random_model, torch.float32)
    entropies: list[float] = []
    for response in distance._responses:
        logits = model(torch.tensor([[*response.request.prompt, *response.tokens]])).logits[0, len(response.request.prompt) - 1 : -1]
        entropies += torch.distributions.Categorical(logits=logits.double()).entropy().tolist()  # type: ignore[no-untyped-call]
    none, far = distance.to([random_model, even])
    assert none == 0
    assert far == pytest.approx(log(logits.shape[-1]) - sum(entropies) / len(entropies), rel=1e-4)
    assert [response.request for response in distance._responses] == [Request(index, index, prompt) for index, prompt in enumerate(PROMPTS)]


def step(index: int, seconds: float, **metrics: float) -> StepFinished:
    evaluation = {"evaluation": 5.0} if "eval/reward" in metrics else {}
    phases = {"rollout": seconds / 2} | evaluation
    told = {"response_tokens": 10.0, "idle_seconds": 1.0, "trained_seconds": 0.0} | metrics
    return StepFinished(step=index, seconds=seconds + sum(evaluation.values()), phases=phases, metrics=told)


def test_a_run_is_as_long_as_its_steps_without_evaluations_and_as_good_as_its_last_policy() -> None:
    plain: list[AnyEvent] = [step(0, 3.0), step(1, 5.0, **{"eval/reward": 0.5})]
    fast: list[AnyEvent] = [step(0, 3.0, unused_tokens=4.0), step(1, 1.0, unused_tokens=8.0, **{"eval/reward": 0.75})]
    slow: list[AnyEvent] = [step(0, 8.0, unused_tokens=0.0), step(1, 8.0, unused_tokens=0.0, **{"eval/reward": 0.25})]
    found = tail._summed([{"plain": plain, "partial": arm} for arm in (fast, slow)], "partial")
    assert found == {
        "step_s": 5.0,
        "rollout_s": 2.5,
        "speedup": 1.25,
        "speedup_range": [0.5, 2.0],
        "reward": 0.5,
        "response_tokens": 10.0,
        "harvest": 0.0,
        "idle_seconds": 1.0,
        "unused_tokens": 3.0,
    }


def test_the_table_begins_with_the_fastest() -> None:
    arms = {
        "plain": {"step_s": 4.0, "speedup": 1.0, "reward": 0.5, "kl_to_plain": 0.0},
        "tlt_over_sampling": {"step_s": 2.0, "speedup": 1.96, "reward": 0.25, "kl_to_plain": 0.0004},
    }
    assert tail.table(arms).splitlines()[2:] == [
        "| TLT over sampling | 2.00 | 1.96x | 0.25 | 0.00040 |",
        "| plain | 4.00 | 1.00x | 0.50 | 0.00000 |",
    ]
