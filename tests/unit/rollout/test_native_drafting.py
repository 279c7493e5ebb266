"""Served drafts are what the training module would draft from the same history, whatever was decoded plainly in between."""

import pytest
import torch
from native_cases import RandomTuner, chains, make_engine, make_guessable, make_requests, make_target, with_random_tuner
from torch import Tensor
from transformers import PreTrainedModel

from engine.drafter.model import Drafter
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.forward_passes import ForwardPasses
from engine.rollout.native.placement import Placement

LIMIT, DEEPEST = 25, 5


def make_case(family: str) -> tuple[PreTrainedModel, Drafter]:
    """A target and a drafter that is right now and then, with every weight of its layer in play."""
    target = make_target(family, tie_word_embeddings=False)
    drafter = Drafter(target.config)
    drafter.load_state_dict(make_guessable(target))
    with torch.no_grad():
        for weight in drafter.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.03)
    return target, drafter.eval()


@torch.inference_mode()
def accepted_offline(target: PreTrainedModel, drafter: Drafter, tokens: Tensor, newest: int, depth: int) -> int:
    """How many of ``depth`` drafts after position ``newest`` are right, with every feature and draft recomputed from the start.

    ``tokens`` [T] is what the target generates greedily, beyond ``newest``.
    """
    known, features = tokens[: newest + 1], target.model(tokens[None, : newest + 1]).last_hidden_state[:, :-1]
    for i in range(depth):
        embedded = target.get_input_embeddings()(known[None, 1:])
        prediction = drafter(embedded, features, torch.arange(len(known) - 1)[None])[:, -1:]
        draft = target.lm_head(prediction)[0, 0].argmax()
        if draft != tokens[newest + 1 + i]:
            return i
        known, features = torch.cat((known, draft[None])), torch.cat((features, prediction), 1)
    return depth


def continued(target: PreTrainedModel, request: Request) -> Tensor:
    prompt = torch.tensor([request.prompt])
    new = LIMIT + DEEPEST
    output: Tensor = target.generate(  # type: ignore[operator]
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_new_tokens=new, max_new_tokens=new, pad_token_id=0
    )
    return output[0]


def test_drafts_of_a_full_batch() -> None:
    """Six requests in four slots, three drafts in every step."""
    target, drafter = make_case("qwen2")
    requests = make_requests(6, 48, group=2, seed=1)
    assert all(len(request.prompt) > 1 for request in requests)
    engine = make_engine(target, drafter.state_dict(), chains(3), slots=4)
    engine.generate(requests, Sampling(temperature=0, max_new_tokens=LIMIT))
    drafted, accepted = 0, [0, 0, 0]
    for request in requests:
        tokens, known = continued(target, request), len(request.prompt)
        while known < len(request.prompt) + LIMIT:
            right = accepted_offline(target, drafter, tokens, known - 1, 3)
            drafted += 1
            accepted = [count + (right > position) for position, count in enumerate(accepted)]
            known += right + 1
    statistics = engine.take_statistics()
    assert statistics.drafted_by_position == [drafted] * 3
    assert statistics.accepted_by_position == accepted
    assert drafted > accepted[0] > accepted[2] > 0


def test_drafts_after_switching_off_and_on() -> None:
    for family in ("qwen2", "qwen3", "llama"):
        target, drafter = make_case(family)
        for request in make_requests(3, 48, seed=2):
            engine = make_engine(target, drafter.state_dict(), chains(DEEPEST))
            tuner = with_random_tuner(engine, RandomTuner(DEEPEST, seed=request.id))
            engine.generate([request], Sampling(temperature=0, max_new_tokens=LIMIT))
            tokens, known = continued(target, request), len(request.prompt)
            for strategy, (accepted,) in tuner.steps[:-1]:
                assert accepted == accepted_offline(target, drafter, tokens, known - 1, strategy.verify)
                known += accepted + 1
            assert {strategy.verify > 0 for strategy, _ in tuner.steps} == {False, True}


def test_those_who_came_last_catch_up_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three prompts of 40 tokens in two slots: the last to come is shown its own to the drafter, and the other request nothing again."""
    target, drafter = make_case("qwen2")
    prompts = [tuple(range(40))] * 2 + [tuple(range(40, 0, -1))]
    requests = [Request(index, index, prompt) for index, prompt in enumerate(prompts)]
    ends = frozenset(range(8))
    engine = make_engine(target, drafter.state_dict(), chains(3), slots=2, end_tokens=ends)
    shown: list[tuple[int, int]] = []
    usual = ForwardPasses.fill

    def fill(self: ForwardPasses, tokens: Tensor, features: Tensor, placed: Placement) -> None:
        shown.append((placed.first, placed.positions.numel()))
        usual(self, tokens, features, placed)

    monkeypatch.setattr(ForwardPasses, "fill", fill)
    found = {done.request.id: done.tokens for done in engine.generate(requests, Sampling(max_new_tokens=LIMIT, seed=5))}
    assert [first for first, positions in shown if positions >= 38] == [0, 1], "two prompts at once, then the third"
    assert max(positions for first, positions in shown if first == 1) < 60
    plain = make_engine(target, slots=2, end_tokens=ends)
    assert found == {done.request.id: done.tokens for done in plain.generate(requests, Sampling(max_new_tokens=LIMIT, seed=5))}
