from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, PretrainedConfig, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen3Config

from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.model import Drafter
from engine.drafter.offline_training import PromptAndResponse, hidden_states
from engine.drafter.spot_trainer import SpotTrainer

SHAPE: dict[str, Any] = {
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
}
FAMILIES = [Qwen2Config(**SHAPE), Qwen3Config(**SHAPE, head_dim=16), LlamaConfig(**SHAPE)]


@pytest.fixture(params=FAMILIES, ids=lambda config: config.model_type)
def family(request: pytest.FixtureRequest) -> PretrainedConfig:
    config: PretrainedConfig = request.param
    return config


@pytest.fixture(scope="session")
def target() -> Qwen2ForCausalLM:
    """A random model whose next-token law depends on what came before."""
    torch.manual_seed(0)
    model: Qwen2ForCausalLM = Qwen2ForCausalLM(Qwen2Config(**SHAPE)).eval()  # type: ignore[no-untyped-call]
    return model


@pytest.fixture(scope="session")
def config(target: Qwen2ForCausalLM) -> PretrainedConfig:
    found: PretrainedConfig = target.config
    return found


@pytest.fixture(scope="session")
def responses(target: PreTrainedModel) -> list[PromptAndResponse]:
    """160 responses of 4 to 40 tokens that the target itself sampled at a low temperature, after prompts of 3 tokens."""
    rng = Random(0)
    torch.manual_seed(0)
    prompts = torch.randint(2, SHAPE["vocab_size"], (160, 3))
    tokens: Tensor = target.generate(prompts, do_sample=True, temperature=0.5, max_new_tokens=40, min_new_tokens=40, pad_token_id=0)  # type: ignore[operator]
    return [(row[:3], row[3 : 3 + rng.randint(4, 40)]) for row in tokens.tolist()]


@pytest.fixture(scope="session")
def buffer(target: PreTrainedModel, responses: list[PromptAndResponse]) -> DataBuffer:
    buffer = DataBuffer(2**24)
    for prompt, response in responses:
        buffer.add(0, [*prompt, *response], len(prompt), hidden_states(target, [[*prompt, *response]])[0][:-1])
    return buffer


@pytest.fixture
def trainer(target: Qwen2ForCausalLM, buffer: DataBuffer) -> SpotTrainer:
    torch.manual_seed(1)
    trainer = SpotTrainer(Drafter(target.config), buffer, SpotConfig(learning_rate=3e-3, tokens_per_microbatch=256, passes=100))
    trainer.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    return trainer
