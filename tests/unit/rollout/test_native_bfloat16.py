"""In bfloat16 plain and speculative decoding may differ where two tokens are as good as equal, and nowhere else."""

from typing import NamedTuple

import pytest
import torch
from native_cases import (
    CPU,
    NGRAMS,
    TREES,
    RandomTuner,
    make_engine,
    make_guessable,
    make_requests,
    make_target,
    strategies,
    with_random_tuner,
)
from test_native_model import logits_of
from torch import Tensor
from transformers import PreTrainedModel

from engine.rollout.interface import Completion, Sampling
from engine.rollout.native.decoder_layer import Linear, packing_pays
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler

SHAPES = ((7, 1, 7), *((tree.depth, tree.top_k, tree.verify) for tree in TREES))
BFLOAT16 = torch.empty(0, dtype=torch.bfloat16)
HALF_UNIT = 2.0**-8
"""Relative error of rounding to bfloat16."""


class Gap(NamedTuple):
    """At the first token that differs: by how much the plain one's score is above the other's in float32, noise included, and how far
    bfloat16 is off for the worst logit there."""

    scores: float
    rounding: float


def runner_of(model: PreTrainedModel) -> Runner:
    runner = Runner(model.config, BFLOAT16, drafting=False)
    runner.target.load(model.state_dict())
    return runner


def linears(runner: Runner) -> list[Linear]:
    return [part for layer in runner.target._layers for part in vars(layer).values() if isinstance(part, Linear)]


def first_gap(exact: PreTrainedModel, rounded: Runner, plain: Completion, other: Completion, sampling: Sampling) -> Gap:
    """``exact`` has the weights of ``rounded``, in float32."""
    pairs = zip(plain.tokens, other.tokens, strict=False)
    place, (mine, theirs) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    known = torch.tensor([plain.request.prompt + plain.tokens[:place]])
    logits = exact(known).logits[0, -1]
    error = (logits_of(rounded, known, [known.shape[1]])[0, -1] - logits).abs().max()
    sampler = TokenSampler(sampling, len(logits), CPU)
    noise = sampler.noise(torch.tensor([plain.request.id]), torch.tensor([[known.shape[1]]])).exponentials[0]
    scores = logits / (sampling.temperature or 1.0) - (noise.log() if sampling.temperature else 0)
    return Gap(float((scores[mine] - scores[theirs]).abs()), float(error / (sampling.temperature or 1.0)))


@torch.inference_mode()
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("sampling", [Sampling(0.0, max_new_tokens=40), Sampling(0.8, max_new_tokens=40, seed=1)])
def test_every_first_divergence_is_a_near_tie(family: str, sampling: Sampling) -> None:
    """One way of decoding puts one token first, the other the other: in float32 they are then no farther apart than twice the error."""
    model = make_target(family, layers=4, tie_word_embeddings=False)
    drafter = make_guessable(model)
    model.bfloat16()
    requests = make_requests(160, 48, group=4, seed=6)
    plain = make_engine(model, dtype=torch.bfloat16).generate(requests, sampling)
    engine = make_engine(model, drafter, strategies(*SHAPES, suffix=True), dtype=torch.bfloat16)
    with_random_tuner(engine, RandomTuner(7, more=(*TREES, *NGRAMS)))
    speculative = engine.generate(requests, sampling)
    differ = [pair for pair in zip(plain, speculative, strict=True) if pair[0].tokens != pair[1].tokens]
    rounded = runner_of(model)
    exact = model.float()  # type: ignore[no-untyped-call]
    gaps = [first_gap(exact, rounded, mine, theirs, sampling) for mine, theirs in differ]
    assert 0 < len(differ) < len(requests) / 2
    largest, rounding = max(gap.scores for gap in gaps), max(gap.rounding for gap in gaps)
    assert largest <= 2 * rounding, f"{len(gaps)} of {len(plain)} responses differ; the largest gap is {largest}, of rounding {rounding}"
    assert rounding < 0.1, "logits have a standard deviation of 2"


@pytest.mark.skipif(not packing_pays(), reason="this CPU has no bfloat16 products")
@torch.inference_mode()
def test_packed_products_are_the_unpacked_ones_up_to_rounding() -> None:
    generator = torch.Generator().manual_seed(0)
    for inputs, outputs, bias in ((64, 48, False), (160, 320, True), (33, 17, True)):
        packed, unpacked = (Linear(inputs, outputs, BFLOAT16, bias) for _ in range(2))
        for linear in (packed, unpacked):
            generator.manual_seed(inputs)
            linear.weight.normal_(generator=generator)
            if linear.bias is not None:
                linear.bias.normal_(generator=generator)
        packed.pack()
        assert packed._packed is not None
        assert unpacked._packed is None
        for rows in (1, 2, 7, 64):
            x = torch.randn(rows, inputs, generator=generator).bfloat16()
            residual = torch.randn(rows, outputs, generator=generator).bfloat16()
            exact = x.double() @ packed.weight.double() + (0 if packed.bias is None else packed.bias.double())
            size = x.abs().double() @ packed.weight.abs().double() + residual.abs().double() + 1
            for linear in (packed, unpacked):
                assert ((linear(x).double() - exact).abs() <= HALF_UNIT * exact.abs() + 1e-5 * size).all()
            if packed.bias is None:
                both = exact + residual.double()
                for linear in (packed, unpacked):
                    error = (linear.plus(residual, x).double() - both).abs()
                    assert (error <= HALF_UNIT * (both.abs() + exact.abs()) * 1.01 + 1e-5 * size).all()


@pytest.mark.skipif(not packing_pays(), reason="this CPU has no bfloat16 products")
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@torch.inference_mode()
def test_a_packed_model_is_as_exact_as_an_unpacked_one(family: str) -> None:
    model = make_target(family, layers=4).bfloat16()
    packed, unpacked = runner_of(model), runner_of(model)
    for linear in linears(unpacked):
        linear._packed = None
    assert len(linears(packed)) == 16
    assert all(linear._packed is not None for linear in linears(packed))
    tokens = torch.randint(48, (4, 30), generator=torch.Generator().manual_seed(0))
    exact = model.float()(tokens).logits  # type: ignore[no-untyped-call]
    errors: list[Tensor] = [logits_of(runner, tokens, [20, 1, 9]) - exact for runner in (packed, unpacked)]
    rms = [float(error.square().mean().sqrt()) for error in errors]
    assert rms[0] < 1.1 * rms[1]
    assert max(rms) < 0.03 * float(exact.std())
    assert (errors[0] - errors[1]).square().mean().sqrt() < 2 * rms[1]
