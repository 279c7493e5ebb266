from itertools import count, cycle

import torch
from transformers import Qwen2ForCausalLM

from engine.config import SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.model import Drafter
from engine.drafter.offline_training import PromptAndResponse, hidden_states, train_offline
from engine.drafter.spot_trainer import SpotTrainer


def fresh(target: Qwen2ForCausalLM) -> SpotTrainer:
    torch.manual_seed(1)
    return SpotTrainer(Drafter(target.config), DataBuffer(2**24), SpotConfig(learning_rate=3e-3, tokens_per_microbatch=512, passes=100))


def test_features_are_those_whose_logits_the_target_gives(target: Qwen2ForCausalLM) -> None:
    sequences = [[5, 6, 7, 8, 9], [4, 3], [10, 11, 12]]
    for ids, features in zip(sequences, hidden_states(target, sequences), strict=True):
        torch.testing.assert_close(target.lm_head(features), target(torch.tensor([ids])).logits[0], atol=1e-5, rtol=1e-4)


def test_features_of_eagle3_are_those_that_the_engine_keeps(target: Qwen2ForCausalLM) -> None:
    """A low, a middle and a high layer's input, then what EAGLE reads."""
    (hidden,) = hidden_states(target, [[5, 6, 7, 8, 9]], "eagle3")
    (last,) = hidden_states(target, [[5, 6, 7, 8, 9]])
    expected = target(torch.tensor([[5, 6, 7, 8, 9]]), output_hidden_states=True).hidden_states
    torch.testing.assert_close(hidden, torch.cat([*(expected[layer][0] for layer in (0, 1, 2)), last], -1), atol=1e-5, rtol=1e-5)


def test_trains_on_all_responses_until_they_end(target: Qwen2ForCausalLM, responses: list[PromptAndResponse]) -> None:
    evaluation = train_offline(trainer := fresh(target), target, iter(responses * 4), seconds=600, learning_rate=3e-3)
    assert len(trainer.buffer) == 4 * len(responses)
    untrained = fresh(target)
    untrained.buffer = trainer.buffer
    untrained.set_target(target.model.embed_tokens.weight, target.lm_head.weight)
    assert evaluation.agreement > untrained.evaluate().agreement + 0.1


def test_time_ends_an_endless_stream(target: Qwen2ForCausalLM, responses: list[PromptAndResponse]) -> None:
    trainer = fresh(target)
    evaluation = train_offline(trainer, target, cycle(responses), seconds=1.0, learning_rate=3e-3, clock=count(step=0.1).__next__)
    assert evaluation.positions > 0
    assert 0 <= trainer.learning_rate < trainer.config.learning_rate
