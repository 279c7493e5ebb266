"""Models, drafters and engines that the tests of the native engine share."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from engine.config import RolloutConfig, SpeculationConfig, StrategyConfig
from engine.drafter.eagle3 import make_drafter
from engine.drafter.kind import DrafterKind
from engine.drafter.layout import DrafterLayout
from engine.drafter.model import DEFAULT, Drafter
from engine.events import ArmStatistics
from engine.models.device_to_host import HostCopy
from engine.rollout.interface import Completion, Request
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.graphs.pool import Recorder
from engine.speculation.strategy import OFF, Context, Strategy

CPU = torch.device("cpu")
_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
with_mkl = pytest.mark.skipif(not _mkl, reason="in which order MKL adds up is all that was found out")
SHAPES: dict[str, dict[str, Any]] = {
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"tie_word_embeddings": False, "head_dim": 24},
    "llama": {
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10_000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "mistral": {"tie_word_embeddings": False, "sliding_window": 64},
    "phi3": {
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.75,
            "factor": 2.0,
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
            "long_factor": [2.0] * 6,
            "original_max_position_embeddings": 256,
        },
    },
    "qwen3_moe": {
        "tie_word_embeddings": False,
        "head_dim": 24,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 40,
        "norm_topk_prob": True,
        "mlp_only_layers": [0],
    },
    "gemma3_text": {
        "head_dim": 24,
        "query_pre_attn_scalar": 40,
        "sliding_window": 64,
        "sliding_window_pattern": 2,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0},
        },
    },
}


def make_target(
    family: str = "qwen2", *, vocabulary: int = 48, hidden: int = 64, layers: int = 2, seed: int = 0, **changes: Any
) -> PreTrainedModel:
    """A random model whose every weight, biases and norms included, is far from its default."""
    shape = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    torch.manual_seed(seed)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape | SHAPES[family] | changes)).eval()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.15)
    return model


def random_drafter(target: PreTrainedModel, seed: int = 1, kind: DrafterKind = "eagle") -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return make_drafter(kind, target.config).state_dict()


@torch.no_grad()
def attentive_drafter(
    target: PreTrainedModel, kind: DrafterKind, vocabulary: Tensor | None = None, layout: DrafterLayout = DEFAULT
) -> Drafter:
    """Random, with every weight in play, and attention that makes much of where and what its keys are."""
    torch.manual_seed(1)
    drafter = make_drafter(kind, target.config, vocabulary, layout).eval()
    if layout.embedding:
        drafter.embed_tokens.weight.normal_()
    for name, weight in drafter.named_parameters():
        weight.add_(torch.randn_like(weight), alpha=0.15 if "q_proj" in name or "k_proj" in name else 0.03)
    return drafter


def constant_drafter(target: PreTrainedModel) -> dict[str, Tensor]:
    """Predicts the zero feature always, so that every token is as likely as any other."""
    return {name: torch.zeros_like(weight) for name, weight in random_drafter(target).items()}


def one_hot_drafter(target: PreTrainedModel, token: int = 2) -> dict[str, Tensor]:
    """Is sure of one token always: its feature has logit 1000 for that one and 0 for the others."""
    hidden, vocabulary = target.config.hidden_size, target.config.vocab_size
    sure = torch.linalg.pinv(target.lm_head.weight.detach())[:, token] * 1000
    any_token = torch.linalg.pinv(target.get_input_embeddings().weight.detach()) @ torch.ones(vocabulary)  # type: ignore[operator]
    weights = constant_drafter(target)
    weights["fc.weight"][:, :hidden] = sure[:, None] * any_token
    return weights


def make_guessable(target: PreTrainedModel) -> dict[str, Tensor]:
    """Makes the target's layers nearly the identity, and returns a drafter that is often right about it: h[t+1] = embedding of x[t+1]."""
    hidden = target.config.hidden_size
    assert not target.config.tie_word_embeddings, "a tied target with such layers would only repeat its token"
    with torch.no_grad():
        target.lm_head.weight.normal_(std=2 / hidden**0.5)
        embedding = target.get_input_embeddings().weight
        embedding.div_(embedding.square().mean(-1, keepdim=True).sqrt())  # type: ignore[operator]
        target.model.norm.weight.fill_(1)
        for layer in target.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.15)
            layer.mlp.down_proj.weight.mul_(0.15)
    weights = constant_drafter(target)
    weights["fc.weight"][:, :hidden] = torch.eye(hidden)
    return weights


def chains(*verify: int, suffix: bool = False) -> SpeculationConfig:
    """Chains of these lengths under a fixed tuner, which takes the first; for any batch size."""
    return strategies(*((n, 1, n) for n in verify), suffix=suffix)


def strategies(*shapes: tuple[int, int, int], suffix: bool = False) -> SpeculationConfig:
    """(depth, top_k, verify) of the learned drafter under a fixed tuner, which takes the first; for any batch size."""
    configured = tuple(StrategyConfig(depth=depth, top_k=top_k, verify=verify) for depth, top_k, verify in shapes)
    return SpeculationConfig.model_validate(
        {"threshold": 100_000, "strategies": configured, "tuner": {"name": "fixed"}, "suffix": {"enabled": suffix}}
    )


def make_engine(
    target: PreTrainedModel,
    drafter: Mapping[str, Tensor] | None = None,
    speculation: SpeculationConfig | None = None,
    *,
    slots: int = 16,
    end_tokens: frozenset[int] = frozenset(),
    device: torch.device = CPU,
    recorder: Recorder | None = None,
    dtype: torch.dtype = torch.float32,
    decode: Callable[[list[int]], str] | None = None,
    drafter_kind: DrafterKind = "eagle",
    cache_tokens: int | None = None,
    max_new_tokens: int = 128,
    max_prompt_tokens: int = 64,
) -> NativeEngine:
    return NativeEngine(
        target.config,
        target.state_dict(),
        rollout=RolloutConfig(
            max_batch=slots, max_prompt_tokens=max_prompt_tokens, max_new_tokens=max_new_tokens, cache_tokens=cache_tokens
        ),
        speculation=speculation,
        end_tokens=end_tokens,
        device=device,
        drafter_weights=drafter,
        recorder=recorder,
        dtype=dtype,
        decode=decode,
        drafter_kind=drafter_kind,
    )


class Kept(dict[int, Tensor]):
    """The features of responses that have finished, by request id."""

    def keep(self, completion: Completion, features: HostCopy) -> None:
        assert completion.request.id not in self
        self[completion.request.id] = features.take()


def make_requests(count: int, vocabulary: int, *, group: int = 1, longest: int = 20, seed: int = 0) -> list[Request]:
    """Groups of ``group`` requests with one random prompt of 1 to ``longest`` tokens."""
    rng = random.Random(seed)
    prompts = [tuple(rng.randrange(vocabulary) for _ in range(rng.randint(1, longest))) for _ in range(0, count, group)]
    return [Request(i, i // group, prompts[i // group]) for i in range(count)]


TREES = (Strategy("eagle", 2, 2, 3), Strategy("eagle", 3, 3, 8), Strategy("eagle", 5, 2, 7), Strategy("eagle", 4, 4, 12))
NGRAMS = (Strategy("ngram", 2, 1, 2), Strategy("ngram", 7, 1, 7))


class RandomTuner:
    """Another strategy, or none, at every step; remembers what it chose and what came of it."""

    def __init__(self, deepest: int, seed: int = 0, more: Sequence[Strategy] = ()) -> None:
        self.arms = [OFF, *(Strategy("eagle", n, 1, n) for n in range(1, deepest + 1)), *more]
        self._rng = random.Random(seed)
        self._chosen: Strategy | None = None
        self.steps: list[tuple[Strategy, list[int]]] = []

    def select(self, context: Context) -> Strategy:
        assert context.batch > 0
        chosen, self._chosen = self.going_on(context), None
        return chosen

    def going_on(self, context: Context) -> Strategy:
        """What a step brings decides nothing here."""
        if self._chosen is None or self._chosen.drafter not in context.drafters:
            self._chosen = self._rng.choice([arm for arm in self.arms if arm.drafter in context.drafters])
        return self._chosen

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:
        assert 0 < len(accepted) <= context.batch
        assert elapsed > 0
        self.steps.append((strategy, list(accepted)))

    def take_arms(self) -> list[ArmStatistics]:
        return []

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


def with_random_tuner(engine: NativeEngine, tuner: RandomTuner) -> RandomTuner:
    assert engine.speculator
    engine.speculator.tuner = tuner
    return tuner
