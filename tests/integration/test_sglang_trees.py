"""SGLang drafts trees of every shape, one after the other: whatever is drafted, greedy responses are those of plain decoding."""

from itertools import pairwise

import pytest
import torch
from sglang_cases import native_engine, needs_sglang, sglang_engine, shapes
from sizes import only_with_all

from engine.config import RolloutConfig, SGLangConfig
from engine.config.task import CountdownConfig
from engine.drafter.export import load_drafter_folder
from engine.models.folder import DRAFTER, TINY
from engine.models.load import end_tokens, load_model, load_tokenizer
from engine.rollout.interface import Completion, Request, Sampling
from engine.tasks.countdown import CountdownTask

pytestmark = [*needs_sglang, only_with_all]
RANDOM_STRATEGIES = "LONGTAIL_TESTS_RANDOM_STRATEGIES"
"""See ``tests/sglang_cpu/random_strategies.py``."""
GREEDY = Sampling(temperature=0, max_new_tokens=64)
SHAPES = ((6, 4, 16), (6, 4, 8), (4, 2, 8), (4, 1, 4), (1, 3, 3), (2, 1, 2))


def prompts(count: int) -> list[Request]:
    asked = CountdownTask(CountdownConfig(), 0, load_tokenizer(TINY)).prompts(0, count)
    return [Request(4 * group + member, group, prompt.tokens) for group, prompt in enumerate(asked) for member in range(4)]


def tokens(completions: list[Completion]) -> list[tuple[int, ...]]:
    return [completion.tokens for completion in completions]


@pytest.mark.parametrize("ranks", [1, 2])
def test_greedy_responses_are_plain_ones_while_strategies_change_at_random(monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    """Requests come and go between the steps. Each rank draws strategies of its own: if they did not agree, they would wait for each other
    for ever, or write nonsense."""
    monkeypatch.setenv(RANDOM_STRATEGIES, "1")
    model, asked = load_model(TINY, torch.float32), prompts(10)
    ends = end_tokens(model, load_tokenizer(TINY))
    rollout = RolloutConfig(max_batch=6, max_prompt_tokens=32, max_new_tokens=64, sglang=SGLangConfig(tensor_parallel=ranks))
    expected = tokens(native_engine(model, rollout, end_tokens=ends).generate(asked, GREEDY))
    drafter = load_drafter_folder(DRAFTER, model.config)
    with sglang_engine(TINY, model, rollout, shapes(*SHAPES), drafter_weights=drafter, end_tokens=ends) as engine:
        assert tokens(engine.generate(asked, GREEDY)) == expected
        statistics = engine.take_statistics()
        names = {arm.strategy: arm.pulls for arm in statistics.arms}
        assert names.keys() == {"off", *(f"eagle d{depth} k{top_k} v{verify}" for depth, top_k, verify in SHAPES)}
        assert sum(names.values()) == statistics.decode_steps
        assert max(names.values()) < statistics.decode_steps / 3
        chosen = [moment.strategy for moment in statistics.moments[0]]
        changes = sum(one != other for one, other in pairwise(chosen))
        assert changes > len(chosen) / 3
        sets = engine.host.plugin("graphs")[0]["strategies"]
        shared = {key for keys in sets.values() for key in keys}
        assert len([key for key in shared if key.startswith("draft_decode")]) == 6, "6/4 is there once, and what plain decoding needs"
        assert len([key for key in shared if key.startswith("target_verify")]) == 6, "4/2/8 and 6/4/8 check as many"


@pytest.mark.parametrize("shape", [(4, 2, 8), (6, 4, 16)])
def test_trees_are_accepted_as_in_the_native_engine(shape: tuple[int, int, int]) -> None:
    """SGLang draws a response's first token with the prompt, ours in a step with drafts: a response may take us that one step more."""
    model, asked = load_model(TINY, torch.float32), prompts(24)[::4]
    rollout = RolloutConfig(max_batch=16, max_prompt_tokens=32, max_new_tokens=64)
    more = {"drafter_weights": load_drafter_folder(DRAFTER, model.config), "end_tokens": end_tokens(model, load_tokenizer(TINY))}
    native = native_engine(model, rollout, shapes(shape), **more)
    expected = tokens(native.generate(asked, GREEDY))
    with sglang_engine(TINY, model, rollout, shapes(shape), **more) as engine:
        assert tokens(engine.generate(asked, GREEDY)) == expected
        theirs = engine.take_statistics().drafted_by_position[0]
    assert theirs <= native.take_statistics().drafted_by_position[0] <= theirs + len(asked)
