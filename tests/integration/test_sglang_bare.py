"""Drafter folders of ours in an SGLang that knows nothing of us."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sglang_cases import TESTS, accept_length, chains, native_engine, needs_sglang, trained_eagle3
from sizes import first, only_with_all
from torch import Tensor
from transformers import PreTrainedModel

from engine.bench.bare_sglang import Served, drafting, serve
from engine.config import RolloutConfig
from engine.config.task import CountdownConfig, MathConfig
from engine.drafter.export import load_drafter_folder, write_drafter_folder, write_serving_folder
from engine.drafter.kind import DrafterKind
from engine.drafter.layout import DrafterLayout
from engine.drafter.model_card import DrafterCard
from engine.drafter.vocabulary import offsets
from engine.models.folder import DRAFTER, TINY, kept
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve
from engine.models.weights import ends
from engine.rollout.interface import Completion, Request, Sampling
from engine.tasks.countdown import CountdownTask
from engine.tasks.registry import build_task

pytestmark = needs_sglang
CARD = DrafterCard("tiny", "countdown", 1)
GREEDY = Sampling(0, max_new_tokens=64)
ROLLOUT = RolloutConfig(max_prompt_tokens=32)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return load_model(TINY, torch.float32)


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    prompts = CountdownTask(CountdownConfig(), 0, load_tokenizer(TINY)).prompts(0, 6)
    return [Request(index, index, prompt.tokens) for index, prompt in enumerate(prompts)]


@pytest.fixture(scope="module")
def expected(model: PreTrainedModel, requests: list[Request]) -> list[Completion]:
    return native_engine(model, ROLLOUT, end_tokens=end_tokens(model, load_tokenizer(TINY))).generate(requests, GREEDY)


def drafted(folder: Path, requests: list[Request], algorithm: str = "EAGLE", model: Path = TINY, **more: Any) -> Served:
    """What SGLang makes of the prompts with the drafter in ``folder``."""
    prompts = [request.prompt for request in requests]
    return serve(model, [(prompts, GREEDY)], dtype="float32", **drafting(folder, 4, algorithm=algorithm), **more)[0]


@only_with_all
@pytest.mark.parametrize("shipped", first(1, [False, True]), ids=lambda shipped: "built-in" if shipped else "exported")
def test_a_drafter_folder_drafts_in_a_bare_sglang(
    tmp_path: Path, model: PreTrainedModel, requests: list[Request], expected: list[Completion], shipped: bool
) -> None:
    """With embedding and head of ``tiny``, which are tied."""
    folder = DRAFTER if shipped else tmp_path / "drafter"
    if not shipped:
        write_drafter_folder(folder, load_drafter_folder(DRAFTER, model.config), model.config, CARD)
    found = drafted(folder, requests)
    assert found.tokens == [completion.tokens for completion in expected]
    assert found.accept_length > 2.5


LAYOUTS: dict[str, DrafterLayout] = {
    "of some tokens": DrafterLayout("eagle3", 40),
    "EAGLE-3.1 with its own head": DrafterLayout("eagle3", 40, head=True, fc_norm=True, norm_output=True),
    "of all tokens": DrafterLayout("eagle3"),
}


def common(completions: list[Completion], count: int) -> Tensor:
    tokens = torch.tensor([token for completion in completions for token in completion.tokens])
    return tokens.bincount(minlength=99).topk(count).indices.sort().values


def native_length(
    model: PreTrainedModel, weights: dict[str, Tensor], plain: list[Completion], kind: DrafterKind, rollout: RolloutConfig = ROLLOUT
) -> float:
    """Of the same drafter's chains in our engine. As SGLang does, it drafts from the second token of ``plain`` responses on."""
    stops = end_tokens(model, load_tokenizer(Path(str(model.config.name_or_path))))
    engine = native_engine(model, rollout, chains(4), drafter_weights=weights, drafter_kind=kind, end_tokens=stops)
    begun = [replace(each.request, prompt=(*each.request.prompt, each.tokens[0])) for each in plain if len(each.tokens) > 1]
    engine.generate(begun, GREEDY)
    return accept_length(engine.take_statistics())


@pytest.mark.parametrize("name", first(1, [*LAYOUTS]))
def test_an_eagle3_export_drafts_in_a_bare_sglang_as_in_our_engine(
    tmp_path: Path, model: PreTrainedModel, requests: list[Request], expected: list[Completion], name: str
) -> None:
    layout = LAYOUTS[name]
    weights = trained_eagle3(model, expected, common(expected, layout.drafted) if layout.drafted else None, layout)
    write_serving_folder(tmp_path, weights, model.config, ends(model)[1], CARD, "sglang")
    found = drafted(tmp_path, requests, "EAGLE3")
    assert found.tokens == [completion.tokens for completion in expected]
    ours = native_length(model, weights, expected, "eagle3")
    assert ours > 3
    assert found.accept_length == pytest.approx(ours, rel=0.05)


@only_with_all
@pytest.mark.skipif(kept("smollm2-135m") is None, reason="there is no model smollm2-135m: longtail models get smollm2-135m")
def test_an_eagle3_export_of_a_pretrained_model_drafts_in_a_bare_sglang_as_in_our_engine(tmp_path: Path) -> None:
    """With tied embeddings of 49,152 tokens. ``longtail bench sglang`` does so with an EAGLE drafter that is trained in earnest."""
    folder = resolve("smollm2-135m")
    real, tokenizer = load_model(folder, torch.float32), load_tokenizer(folder)
    prompts = build_task(MathConfig(path=TESTS / "data/gsm8k_sample.jsonl"), 0, tokenizer).prompts(0, 4)
    asked = [Request(index, index, prompt.tokens) for index, prompt in enumerate(prompts)]
    rollout = RolloutConfig(max_prompt_tokens=512)
    plain = native_engine(real, rollout, end_tokens=end_tokens(real, tokenizer)).generate(asked, GREEDY)
    drafted_from = torch.tensor(sorted({token for completion in plain for token in completion.tokens} | set(range(300, 400))))
    weights = trained_eagle3(real, plain, drafted_from, DrafterLayout("eagle3", len(drafted_from)))
    write_serving_folder(tmp_path, weights, real.config, ends(real)[1], CARD, "sglang")
    found = drafted(tmp_path, asked, "EAGLE3", folder)
    assert found.tokens == [completion.tokens for completion in plain]
    ours = native_length(real, weights, plain, "eagle3", rollout)
    assert ours > 2
    assert found.accept_length == pytest.approx(ours, rel=0.05)


@only_with_all
def test_an_eagle_exports_draft_vocabulary_is_sglangs_token_map(
    tmp_path: Path, model: PreTrainedModel, requests: list[Request], expected: list[Completion]
) -> None:
    weights = load_drafter_folder(DRAFTER, model.config) | {"d2t": offsets(common(expected, 9))}
    write_serving_folder(tmp_path, weights, model.config, ends(model)[1], CARD, "sglang")
    found = drafted(tmp_path, requests, speculative_token_map=str(tmp_path / "token_map.pt"))
    assert found.tokens == [completion.tokens for completion in expected]
    ours = native_length(model, weights, expected, "eagle")
    assert ours < 0.97 * native_length(model, load_drafter_folder(DRAFTER, model.config), expected, "eagle")
    assert found.accept_length == pytest.approx(ours, rel=0.05)
