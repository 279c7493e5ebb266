from itertools import pairwise
from pathlib import Path

import pytest
import torch
from models_for_tests import Family, make_random_model
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from engine.drafter.export import load_drafter_folder, write_drafter_folder
from engine.drafter.model import Drafter
from engine.drafter.model_card import DrafterCard
from engine.models.enlarge import enlarge, enlarge_drafter
from engine.models.folder import SMALL_LAYERS, SMALL_WIDTH, TINY, read_config, read_facts, weight_files
from engine.models.load import load_model, load_tokenizer


def logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    with torch.no_grad():
        scores: Tensor = model(ids).logits
    return scores


def greedy(model: PreTrainedModel, ids: Tensor, count: int) -> Tensor:
    for _ in range(count):
        ids = torch.cat([ids, logits(model, ids)[:, -1:].argmax(-1)], dim=1)
    return ids


def random_ids(vocabulary: int) -> Tensor:
    return torch.randint(vocabulary, (3, 60), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("enlarge")
    make_random_model(folder / "source", layers=3)
    enlarge(folder / "source", folder / "target", width=2, layers=5)
    return folder / "source", folder / "target"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize(("width", "layers"), [(2, 2), (2, 5), (4, 3)])
def test_function_stays(tmp_path: Path, family: Family, tied: bool, width: int, layers: int) -> None:
    source = make_random_model(tmp_path / "source", family, tied=tied)
    enlarge(source, tmp_path / "target", width, layers)
    before, after = load_model(source, torch.float32), load_model(tmp_path / "target", torch.float32)
    ids = random_ids(before.config.vocab_size)
    assert (logits(before, ids) - logits(after, ids)).abs().max() <= 1e-4
    assert torch.equal(greedy(before, ids[:, :5], 10), greedy(after, ids[:, :5], 10))
    assert (after.config.num_hidden_layers, after.config.hidden_size) == (layers, width * before.config.hidden_size)


def test_with_a_head_of_its_own_the_features_of_a_tied_model_keep_their_size(tmp_path: Path) -> None:
    source = make_random_model(tmp_path / "source", tied=True)
    enlarge(source, tmp_path / "target", width=4, layers=3, own_head=True)
    before, after = load_model(source, torch.float32), load_model(tmp_path / "target", torch.float32)
    ids = random_ids(before.config.vocab_size)
    assert (logits(before, ids) - logits(after, ids)).abs().max() <= 1e-4
    with torch.no_grad():
        narrow, wide = (model.base_model(ids).last_hidden_state for model in (before, after))
    assert torch.allclose(wide, narrow.repeat(1, 1, 4), atol=1e-4)
    assert not after.config.tie_word_embeddings


def test_shares_are_exact_in_bfloat16(tmp_path: Path) -> None:
    source = make_random_model(tmp_path / "source")
    load_model(source, torch.bfloat16).save_pretrained(source)
    enlarge(source, tmp_path / "target", width=4, layers=3)
    before, after = load_model(source, "bfloat16").state_dict(), load_model(tmp_path / "target", "bfloat16").state_dict()
    name = "model.layers.0.mlp.up_proj.weight"
    shares = after[name].unflatten(1, (4, -1)).unflatten(0, (4, -1)).double()
    assert after[name].dtype == torch.bfloat16
    assert torch.equal(shares.sum(2), before[name].double().expand(4, -1, -1))
    ids = random_ids(before["model.embed_tokens.weight"].shape[0])
    exact = [logits(load_model(folder, torch.float32), ids) for folder in (source, tmp_path / "target")]
    assert (exact[0] - exact[1]).abs().max() <= 1e-4


def test_added_weights_are_not_zero_and_copies_differ(pair: tuple[Path, Path]) -> None:
    weights = load_model(pair[1], torch.float32).state_dict()
    for name, weight in weights.items():
        assert weight.count_nonzero() > 0.99 * weight.numel(), name
    read = weights["model.layers.0.self_attn.q_proj.weight"]
    half = read.shape[1] // 2
    assert not torch.allclose(read[:, :half], read[:, half:])


def test_added_layer_adds_nothing_but_computes(pair: tuple[Path, Path]) -> None:
    model = load_model(pair[1], torch.float32)
    states, neurons = [], []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda _module, _inputs, output: states.append(output))
        layer.mlp.down_proj.register_forward_pre_hook(lambda _module, inputs: neurons.append(inputs[0]))
    logits(model, random_ids(model.config.vocab_size))
    changes = [float((after - before).abs().max()) for before, after in pairwise(states)]
    assert [change < 1e-4 for change in changes] == [True, False, True, False]
    assert all(float(activation.abs().mean()) > 1e-2 for activation in neurons)


def test_gradient_reaches_every_weight_and_training_changes_the_function(pair: tuple[Path, Path]) -> None:
    model = load_model(pair[1], torch.float32).train()
    ids = random_ids(model.config.vocab_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
    losses = [_train_step(model, ids, optimizer)]
    dead = {name for name, weight in model.named_parameters() if (weight.grad.abs() > 0).float().mean() < 0.5}
    assert dead == {"model.embed_tokens.weight"} & dead  # only the tokens of the batch have a gradient there
    losses += [_train_step(model, ids, optimizer) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] - losses[-1] < 0.5 * losses[0]
    one, other = model.model.embed_tokens.weight.detach().chunk(2, dim=1)
    assert (one - other).abs().max() > 1e-5


def _train_step(model: PreTrainedModel, ids: Tensor, optimizer: torch.optim.Optimizer) -> float:
    scores = model(ids).logits
    loss = cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize(("width", "layers", "message"), [(3, 3, "power of two"), (1, 3, "power of two"), (2, 1, "below the 3 layers")])
def test_refuses_shapes_it_cannot_make(pair: tuple[Path, Path], tmp_path: Path, width: int, layers: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        enlarge(pair[0], tmp_path, width, layers)


def test_parameters_grow_with_the_square_of_the_width(pair: tuple[Path, Path]) -> None:
    source, target = (read_facts(folder) for folder in pair)
    assert 2.5 * source.parameters < target.parameters < 4 * 5 / 3 * source.parameters
    assert target.context == source.context
    assert len(weight_files(pair[1])) == 1
    assert read_config(pair[1])["layer_types"] == ["full_attention"] * 5
    assert load_tokenizer(pair[1]).eos_token_id == 1


@pytest.mark.parametrize(("tied", "own_head"), [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_enlarged_drafter_drafts_the_same(tmp_path: Path, family: Family, tied: bool, own_head: bool) -> None:
    source = make_random_model(tmp_path / "source", family, tied=tied)
    enlarge(source, tmp_path / "target", width=2, layers=3, own_head=own_head)
    models = [load_model(folder, torch.float32) for folder in (source, tmp_path / "target")]
    write_drafter_folder(tmp_path / "drafter", _random_drafter(models[0]), models[0].config, DrafterCard("source", "countdown", 0))
    enlarge_drafter(tmp_path / "drafter", tmp_path / "wide", width=2, own_head=own_head)
    ids = random_ids(models[0].config.vocab_size)
    before, after = (_drafted(model, tmp_path / name, ids) for model, name in zip(models, ("drafter", "wide"), strict=True))
    assert (before - after).abs().max() <= 1e-3 * before.abs().max()


def _random_drafter(target: PreTrainedModel) -> dict[str, Tensor]:
    torch.manual_seed(3)
    return {name: weight + 0.1 * torch.randn_like(weight) for name, weight in Drafter(target.config).state_dict().items()}


@torch.no_grad()
def _drafted(target: PreTrainedModel, folder: Path, ids: Tensor) -> Tensor:
    """Logits of the drafter in ``folder`` for the token after next."""
    drafter = Drafter(target.config)
    drafter.load_state_dict(load_drafter_folder(folder, target.config))
    features = target.model(ids).last_hidden_state[:, :-1]
    embedded = target.get_input_embeddings()(ids[:, 1:])
    positions = torch.arange(features.shape[1]).expand(len(ids), -1)
    mask = torch.ones(features.shape[1], features.shape[1], dtype=torch.bool).tril()[None, None]
    scores: Tensor = target.get_output_embeddings()(drafter(embedded, features, positions, mask))  # type: ignore[no-untyped-call]
    return scores


def test_the_built_in_small_behaves_as_tiny(tmp_path: Path) -> None:
    enlarge(TINY, tmp_path / "small", SMALL_WIDTH, SMALL_LAYERS)
    assert 25e6 <= read_facts(tmp_path / "small").parameters <= 90e6
    tiny, small = load_model(TINY, torch.float32), load_model(tmp_path / "small", torch.float32)
    ids = load_tokenizer(TINY)(["3 7 25=29:", "9 4 16=52:", "1 2 18=37:"], return_tensors="pt").input_ids
    assert (logits(tiny, ids) - logits(small, ids)).abs().max() <= 1e-4
    assert torch.equal(greedy(tiny, ids, 20), greedy(small, ids, 20))
