"""Every family, each with its odd features switched on, from weights to responses: bits, weight sync, drafters."""

import pytest
import torch
from native_cases import NGRAMS, SHAPES, TREES, RandomTuner, make_engine, make_requests, make_target, random_drafter, strategies, with_mkl
from native_cases import with_random_tuner as with_tuner
from test_native_bits import bits
from test_native_model import logits_of, runner_of
from torch import Tensor
from transformers import PreTrainedModel

from engine.drafter.eagle3 import first_drafter
from engine.drafter.kind import DrafterKind
from engine.models.checksum import checksum
from engine.models.families import FAMILIES
from engine.models.weights import base_weights
from engine.rollout.interface import Sampling
from engine.rollout.native.feed_forward import Mixture
from engine.rollout.native.placement import Placement

NEW = [family for family in FAMILIES if family not in ("llama", "qwen2", "qwen3")]
PAIRS = (
    ("mistral", torch.bfloat16),
    ("phi3", torch.float32),
    ("qwen3_moe", torch.float32),
    ("qwen3_moe", torch.float16),
    ("gemma3_text", torch.float16),
)


def make_model(family: str) -> PreTrainedModel:
    """Its widths are no multiples of what a processor takes at once."""
    wide = {"intermediate_size": 1000} if family == "gemma3_text" else {}
    return make_target(family, max_position_embeddings=512, hidden=80, num_attention_heads=5, num_key_value_heads=1, **wide)


@with_mkl
@pytest.mark.parametrize(("family", "dtype"), PAIRS)
def test_a_response_has_the_bits_it_has_alone(family: str, dtype: torch.dtype) -> None:
    """Beyond a window and half a block of attention, whatever drafts, with a drafter of either kind."""
    model = make_model(family)
    requests = make_requests(4, 48, seed=1)
    sampling = Sampling(0.9, 0.95, max_new_tokens=270, seed=3)
    alone = bits(make_engine(model, slots=1, dtype=dtype).generate(requests[:1], sampling))
    kind: DrafterKind = "eagle3" if dtype == torch.float16 else "eagle"
    shapes = ((7, 1, 7), *((tree.depth, tree.top_k, tree.verify) for tree in TREES))
    engine = make_engine(model, random_drafter(model, kind=kind), strategies(*shapes, suffix=True), slots=4, dtype=dtype, drafter_kind=kind)
    tuner = with_tuner(engine, RandomTuner(7, more=(*TREES, *NGRAMS)))
    together = bits(engine.generate(requests, sampling))
    assert {request: together[request] for request in alone} == alone
    assert max(max(drafts) for strategy, drafts in tuner.steps if strategy.drafter == "eagle") >= 1


@with_mkl
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("family", NEW)
@torch.inference_mode()
def test_logits_have_the_same_bits_read_at_once_or_one_by_one(family: str, threads: int) -> None:
    torch.set_num_threads(threads)
    runner = runner_of(make_model(family))
    tokens = torch.randint(48, (3, 150), generator=torch.Generator().manual_seed(0))
    at_once = logits_of(runner, tokens, [150])
    assert torch.equal(logits_of(runner, tokens, [65, 5, 5, *[1] * 9, 13, 53]), at_once)
    assert torch.equal(logits_of(runner, tokens[1:2], [33, 33, *[1] * 4, 80]), at_once[1:2])


@pytest.mark.parametrize("family", SHAPES)
def test_log_probs_are_those_of_the_weights_last_loaded(family: str) -> None:
    """Loaded by name from a model in training, which the engine's own names and bits then are those of."""
    engine, trained = make_engine(make_target(family)), make_target(family, seed=5)
    weights = base_weights(trained)
    engine.load_target(weights, 1)
    views = engine._runner.target.parameters()
    assert checksum(views[name] for name in weights) == checksum(weights.values())
    (response,) = engine.generate(make_requests(1, 48), Sampling(max_new_tokens=100))
    assert response.target_version == 1
    tokens = torch.tensor([[*response.request.prompt, *response.tokens]])
    with torch.inference_mode():
        law = trained(tokens).logits.log_softmax(-1)[0, len(response.request.prompt) - 1 : -1]
    expected = law.gather(1, torch.tensor(response.tokens)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(response.logprobs), expected, atol=5e-5, rtol=0)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
@pytest.mark.parametrize("family", SHAPES)
def test_drafts_are_those_of_the_first_drafter_as_training_runs_it(family: str, kind: DrafterKind) -> None:
    """Of the features that the target really has, and the embeddings that training reads."""
    model = make_target(family)
    drafter = first_drafter(kind, model)
    tokens = torch.randint(48, (2, 40))
    engine = make_engine(model, drafter.state_dict(), strategies((3, 1, 3)), drafter_kind=kind)
    runner = engine._runner
    assert runner.drafter
    runner.reserve(2, 48)
    positions = torch.arange(39).expand(2, -1)
    with torch.inference_mode():
        captured = runner.target.features(tokens[:, :-1].flatten(), runner.cache.plan(Placement(positions, 39)))
        embedded: Tensor = model.get_input_embeddings().weight[tokens[:, 1:]]  # type: ignore[index]
        features = drafter.fuse(captured).view(2, 39, -1)
        expected = model.get_output_embeddings()(drafter.readout(drafter(embedded, features, positions)))  # type: ignore[no-untyped-call]
        step = runner.cache.plan(Placement(positions, 39, drafter=True))
        _, served = runner.passes.draft(tokens[:, 1:].flatten(), runner.drafter.fuse(captured), step)
    torch.testing.assert_close(served.view_as(expected), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", SHAPES)
def test_the_first_drafter_has_the_last_layer_only_of_a_target_that_computes_the_same(family: str) -> None:
    """A Gemma's norm after attention has the name of a llama's norm before the feed-forward network, and is another one."""
    model = make_target(family)
    norm = first_drafter("eagle", model).get_parameter("layers.0.post_attention_layernorm.weight")
    copied = torch.equal(norm, model.get_parameter("model.layers.1.post_attention_layernorm.weight"))
    assert copied == (family in ("llama", "mistral", "qwen2", "qwen3"))
    assert copied or torch.equal(norm, torch.ones_like(norm))


@torch.inference_mode()
def test_experts_are_the_same_all_at_once_as_on_a_gpu() -> None:
    runner = runner_of(make_target("qwen3_moe"))
    mixture = runner.target._layers[1]._feed_forward
    assert isinstance(mixture, Mixture)
    x = torch.randn(30, 64)
    shares, chosen = mixture.route(x)
    assert set(chosen.flatten().tolist()) == set(range(6))
    torch.testing.assert_close(mixture.all(x, shares, chosen), mixture(x), atol=1e-5, rtol=1e-5)
