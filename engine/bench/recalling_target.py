"""A target of long context that is built, not trained: its second layer looks up what followed the same token earlier, however far back.

The residual stream has three parts of ``PART`` numbers: the token's embedding, that of the token before, written by the first layer, and
the mean embedding of what followed earlier occurrences of the token, written by the second.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from engine.drafter.eagle3 import first_drafter
from engine.drafter.model import Drafter

VOCABULARY, PART, CODE = 2048, 64, 16
"""``CODE`` numbers of an embedding are what tokens are told apart by: as many as RoPE turns slowly enough at 16 k positions."""
HIDDEN = 3 * PART
THETA = 1e6
SIZE = (HIDDEN / 3) ** 0.5
"""Of each part, as the final norm leaves it."""
BEFORE, MATCH = 15.0, 100.0
"""How sharply the layers attend to the token before, and to the same token."""


NOISE = 0.01
"""Of what the drafter starts with."""


class Law(NamedTuple):
    """How much the law of the next token follows what is looked up, and how much the newest token alone."""

    recalled: float
    local: float


LAWS = {"recall": Law(20.0, 6.0), "local": Law(0.0, 20.0)}


@torch.no_grad()
def recalling_target(law: Law, positions: int) -> Qwen2ForCausalLM:
    """Two layers of one head for ``positions`` tokens; the rest, made at random, has no effect on its output."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=PART,  # type: ignore[call-arg]
        max_position_embeddings=positions,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=False,
        rms_norm_eps=1e-12,
    )
    model: Qwen2ForCausalLM = Qwen2ForCausalLM(config).eval()  # type: ignore[no-untyped-call]
    tokens = torch.cat([torch.nn.functional.normalize(torch.randn(VOCABULARY, size), dim=1) for size in (CODE, PART - CODE)], 1) / 2**0.5
    model.model.embed_tokens.weight.zero_()[:, :PART] = SIZE * tokens
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    _look_back(model)
    _look_up(model)
    turned = torch.linalg.qr(torch.randn(PART, PART))[0]
    model.lm_head.weight.copy_(torch.cat((law.local * tokens @ turned, torch.zeros_like(tokens), law.recalled * tokens), 1) / SIZE)
    return model


def _look_back(model: Qwen2ForCausalLM) -> None:
    """The first layer: its scores depend on the distance alone, and are largest at 1."""
    attention = model.model.layers[0].self_attn
    angles = THETA ** (-torch.arange(PART // 2) / (PART / 2))
    size = (BEFORE * PART**0.5) ** 0.5
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight.zero_()
    attention.q_proj.bias[:] = size * torch.cat((torch.ones(PART // 2), torch.zeros(PART // 2)))
    attention.k_proj.bias[:] = size * torch.cat((angles.cos(), angles.sin()))
    _copy(attention.v_proj.weight, attention.o_proj.weight, SIZE * HIDDEN**-0.5, 1)


def _look_up(model: Qwen2ForCausalLM) -> None:
    """The second layer's: keys are of the token before, values of the token itself; both numbers of a pair that RoPE turns are used."""
    attention = model.model.layers[1].self_attn
    norm = (HIDDEN / 2) ** 0.5
    size = (2 * MATCH * PART**0.5) ** 0.5 / norm
    half = CODE // 2
    slow = torch.cat((torch.arange(PART // 2 - half, PART // 2), torch.arange(PART - half, PART)))
    for projection, part in ((attention.q_proj, 0), (attention.k_proj, 1)):
        projection.weight.zero_()
        projection.weight[slow, part * PART + torch.arange(CODE)] = size
    _copy(attention.v_proj.weight, attention.o_proj.weight, SIZE / norm, 2)


def _copy(value: Tensor, output: Tensor, scale: float, part: int) -> None:
    """The head carries embeddings into ``part`` of the residual stream."""
    value.zero_()[:, :PART] = scale * torch.eye(PART)
    output[part * PART : (part + 1) * PART] = torch.eye(PART)


@torch.no_grad()
def recalling_drafter(target: Qwen2ForCausalLM) -> Drafter:
    """One whose layer is the target's last and finds in its inputs what that does in its own: the next token, and the token before that."""
    drafter = first_drafter("eagle", target)
    embedded, feature = torch.split(drafter.fc.weight.zero_(), HIDDEN, 1)
    for output, inputs in ((0, embedded), (PART, feature)):
        inputs[output : output + PART, :PART] = torch.eye(PART)
    drafter.fc.weight += torch.randn_like(drafter.fc.weight) * NOISE
    return drafter


def sequence(length: int, seed: int) -> list[int]:
    """Tokens of which each is followed by the same one wherever it stands, in this sequence, but for one place in ten."""
    generator = torch.Generator().manual_seed(seed)
    follows = torch.randperm(VOCABULARY, generator=generator).tolist()
    leaps, elsewhere = torch.rand(length, generator=generator).tolist(), torch.randint(VOCABULARY, (length,), generator=generator).tolist()
    tokens = [elsewhere[0]]
    for leap, other in zip(leaps[1:], elsewhere[1:], strict=True):
        tokens.append(other if leap < 0.1 else follows[tokens[-1]])
    return tokens
