import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from models_for_tests import Family, make_random_model
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from engine.drafter.export import write_drafter_folder
from engine.drafter.model import Drafter
from engine.drafter.model_card import DrafterCard
from engine.errors import ModelError
from engine.models import folder as folders
from engine.models import load
from engine.models.families import FAMILIES
from engine.models.folder import read_facts
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve, resolve_drafter
from engine.models.tiny import character_tokenizer, tiny_config


@pytest.fixture
def folder(random_model: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(random_model, tmp_path / "model"))


def edit_json(file: Path, change: Callable[[dict[str, object]], object]) -> None:
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("family", FAMILIES)
def test_describes_and_loads_each_family(tmp_path: Path, family: Family) -> None:
    made = make_random_model(tmp_path, family, context=512)
    facts = read_facts(resolve(str(made)))
    model = load_model(made, torch.float32)
    assert (facts.family, facts.layers, facts.hidden_size, facts.vocabulary, facts.context) == (family, 2, 64, 259, 512)
    assert facts.parameters == sum(weight.numel() for weight in model.parameters())
    assert not model.training
    assert model.config._attn_implementation == "sdpa"
    assert load_model(made, "bfloat16").dtype == torch.bfloat16


def test_loads_sharded_weights(folder: Path) -> None:
    whole = load_model(folder, torch.float32)
    (folder / "model.safetensors").unlink()
    whole.save_pretrained(folder, max_shard_size="200KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert read_facts(folder).parameters == whole.num_parameters()
    min(folder.glob("model-*.safetensors")).unlink()
    with pytest.raises(ModelError, match=r"weights are incomplete: model-00001-of-\d+\.safetensors is missing"):
        read_facts(folder)


def test_missing_folder_names_what_can_be_used(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"no such folder; use a built-in model \(tiny, small\), a name .*, or a local Hugging Face folder"
    ):
        resolve(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("file", "message"),
    [("config.json", r"no config\.json"), ("model.safetensors", "no weights"), ("tokenizer.json", "no tokenizer")],
)
def test_missing_file(folder: Path, file: str, message: str) -> None:
    (folder / file).unlink()
    with pytest.raises(ModelError, match=message):
        read_facts(folder)


@pytest.mark.parametrize(
    ("text", "message"), [("", "not readable as JSON"), ('{"model": {', "not readable as JSON"), ("{}", "no tokenizer in it")]
)
def test_a_tokenizer_that_was_cut_off_is_seen_at_once(folder: Path, text: str, message: str) -> None:
    read_facts(folder)
    (folder / "tokenizer.json").write_text(text)
    with pytest.raises(ModelError, match=rf"tokenizer\.json: .*{message}"):
        read_facts(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "gpt2", "architectures": ["GPT2ForTokenClassification"]},
            "unsupported architecture .*gpt2.* supported are llama, mistral",
        ),
        ({"model_type": "granite", "architectures": ["GraniteForCausalLM"], "logits_scaling": 8.0}, r"scaled or capped \(logits_scaling=8"),
        ({"architectures": ["Qwen2ForSequenceClassification"]}, "unsupported architecture .*SequenceClassification"),
        ({"max_position_embeddings": None}, r"config\.json has no max_position_embeddings"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised weights cannot be trained"),
        ({"use_sliding_window": True}, "sliding-window attention is not supported"),
        ({"model_type": ["qwen2"]}, r"unsupported architecture \(model_type \['qwen2'\]"),
        ({"model_type": None}, "unsupported architecture"),
        ({"architectures": 5}, r"config\.json: architectures must be a list of names, but it is 5"),
        ({"rope_parameters": "default"}, r"config\.json: rope_parameters must be a JSON object, but it is 'default'"),
        ({"num_hidden_layers": -3}, r"config\.json has no num_hidden_layers above 0, but -3"),
        ({"hidden_size": True}, r"config\.json has no hidden_size above 0, but True"),
    ],
)
def test_config_that_cannot_be_used(folder: Path, change: dict[str, object], message: str) -> None:
    edit_json(folder / "config.json", lambda config: config.update(change))
    with pytest.raises(ModelError, match=message):
        read_facts(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(folder: Path, value: float) -> None:
    edit_weights(folder, lambda weights: weights["model.norm.weight"][3:4].fill_(value))
    with pytest.raises(ModelError, match=r"1 weights have values that are not finite, such as model\.norm\.weight"):
        load_model(folder, torch.float32)


def test_quantised_weights_of_which_the_configuration_says_nothing(folder: Path) -> None:
    edit_weights(folder, lambda weights: weights.update({"model.norm.weight": weights["model.norm.weight"].char()}))
    with pytest.raises(ModelError, match=r"model\.norm\.weight is of type I8: quantised weights cannot be trained"):
        read_facts(folder)


def test_a_configuration_may_name_an_attention_that_is_not_installed(folder: Path) -> None:
    edit_json(folder / "config.json", lambda config: config.update(_attn_implementation="flash_attention_2"))
    assert load_model(folder, torch.float32).config._attn_implementation == "sdpa"


def test_with_longrope_a_model_holds_what_it_was_first_trained_with(tmp_path: Path) -> None:
    folder = make_random_model(tmp_path, "phi3", context=512)
    longrope = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    edit_json(folder / "config.json", lambda config: (config.pop("rope_parameters"), config.update(rope_scaling=longrope)))
    edit_json(folder / "config.json", lambda config: config.update(original_max_position_embeddings=128))
    assert read_facts(folder).context == 128
    assert load_model(folder, torch.float32).config.rope_parameters["original_max_position_embeddings"] == 128


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not readable as JSON"), ("[]", "must be a JSON object"), ("[" * 100_000, "not readable as JSON: maximum recursion depth")],
)
def test_unreadable_config(folder: Path, text: str, message: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError, match=message):
        read_facts(folder)


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pickled \(pytorch_model\.bin\), which can run code when loaded; convert them to safetensors"):
        load_model(folder, torch.float32)


def test_unreadable_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelError, match="not readable as safetensors"):
        read_facts(folder)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([], "names no files"),
        ({}, "names no files"),
        ({"a": 1}, "names 1, which is no file of this folder"),
        ({"a": "../model/whole.safetensors"}, r"names '\.\./model/whole\.safetensors', which is no file of this folder"),
        ({"model.norm.weight": "whole.safetensors"}, "a file in it is damaged, or of another version: KeyError: .metadata"),
    ],
)
def test_unusable_index_of_weights(folder: Path, places: object, message: str) -> None:
    (folder / "model.safetensors").rename(folder / "whole.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ModelError, match=message):
        load_model(folder, torch.float32)


def test_weights_of_other_shapes_than_config_json_says(folder: Path) -> None:
    edit_json(folder / "config.json", lambda config: config.update(intermediate_size=100))
    with pytest.raises(ModelError, match=r"6 weights do not fit config.json: .*mlp\.down_proj\.weight is \[64, 192\], and .* \[64, 100\]"):
        load_model(folder, torch.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 2**15}, r"the weights do not fit config\.json: a model of its shape has [\d,]{10,}, and it has [\d,]{6,7}$"),
        ({"num_hidden_layers": 10**9}, r"config\.json says 1000000000 layers, and there are only \d+ tensors"),
    ],
)
def test_what_is_missing_is_not_made_in_memory_first(folder: Path, change: dict[str, int], message: str) -> None:
    """Random numbers for what the file does not have, and layers without end."""
    edit_json(folder / "config.json", lambda config: config.update(change))
    with pytest.raises(ModelError, match=message):
        load_model(folder, torch.float32)


def test_transformers_prints_nothing_beside_our_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    edit_json(folder / "config.json", lambda config: config.update(intermediate_size=100))
    with pytest.raises(ModelError):
        load_model(folder, torch.float32)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("template", ["{% for x in %}", "{{ ''.__class__.__mro__ }}", "{{ raise_exception('no') }}"])
def test_a_chat_template_that_takes_no_question(folder: Path, template: str) -> None:
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelError, match="model: a file in it is damaged"):
        load_tokenizer(folder)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tokenizer.json", {"model": {}}),
        ("tokenizer_config.json", "{"),
        ("generation_config.json", "[]"),
        ("config.json", {"num_hidden_layers": 4}),
        ("config.json", {"rms_norm_eps": "small"}),
        ("config.json", {"hidden_act": "nope"}),
    ],
)
def test_a_damaged_file_is_told_in_a_line(folder: Path, file: str, text: str | dict[str, object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / file).write_text(text if isinstance(text, str) else json.dumps(config | text))
    read = load_tokenizer if file.startswith("tokenizer") else partial(load_model, dtype="auto")
    with pytest.raises(ModelError, match=r"model: a file in it is damaged, or of another version: \w+: ") as refusal:
        read(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "damage",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "//////////////8="}},
        {"model": {"type": "WordLevel", "vocab": {"a": 3}, "unk_token": "<unk>"}, "pre_tokenizer": None, "added_tokens": []},
    ],
    ids=["panic", "no token for what it does not know"],
)
def test_a_tokenizer_that_fails_with_any_text(folder: Path, damage: dict[str, object]) -> None:
    edit_json(folder / "tokenizer.json", lambda tokenizer: tokenizer.update(damage))
    with pytest.raises(ModelError, match="model: a file in it is damaged, or of another version: ") as refusal:
        load_tokenizer(folder)
    assert "\n" not in str(refusal.value)


def test_missing_weight_is_not_made_up(folder: Path) -> None:
    edit_weights(folder, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(ModelError, match=r"1 weights are missing, such as model\.layers\.1\.mlp\.up_proj\.weight"):
        load_model(folder, torch.float32)


def test_tokenizer_beyond_the_vocabulary(folder: Path) -> None:
    edit_json(folder / "config.json", lambda config: config.update(vocab_size=200))
    with pytest.raises(ModelError, match="the tokenizer has token 258, but the model's vocabulary has 200 tokens"):
        load_tokenizer(folder)


def test_end_tokens_come_from_every_source(folder: Path) -> None:
    edit_json(folder / "generation_config.json", lambda config: config.update(eos_token_id=[7, 9]))
    assert end_tokens(load_model(folder, torch.float32), load_tokenizer(folder)) == {1, 7, 9}


def test_an_end_token_that_is_none(folder: Path) -> None:
    edit_json(folder / "generation_config.json", lambda config: config.update(eos_token_id=[[1]]))
    with pytest.raises(ModelError, match=r"eos_token_id: \[1\] is no token"):
        end_tokens(load_model(folder, torch.float32), load_tokenizer(folder))


def test_no_end_token(folder: Path) -> None:
    for file in ("generation_config.json", "config.json"):
        edit_json(folder / file, lambda config: config.update(eos_token_id=None))
    edit_json(folder / "tokenizer_config.json", lambda config: config.pop("eos_token"))
    with pytest.raises(ModelError, match="no end token"):
        end_tokens(load_model(folder, torch.float32), load_tokenizer(folder))


def test_drafter_paths(tmp_path: Path) -> None:
    assert resolve_drafter("builtin", "tiny") == folders.DRAFTER
    assert resolve_drafter("builtin", "some/folder") is None
    assert resolve_drafter(None, "tiny") is None
    assert resolve_drafter(str(tmp_path), "tiny") == tmp_path


def test_small_is_made_once_even_in_a_race(tmp_path: Path, random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    monkeypatch.setattr(load, "TINY", random_model)
    monkeypatch.setattr(load, "SMALL_LAYERS", 3)
    with ThreadPoolExecutor(4) as racers:
        made = set(racers.map(resolve, ["small"] * 4))
    assert set((tmp_path / "models").iterdir()) == made
    folder = made.pop()
    before = folder.stat().st_ino
    assert resolve("small") == folder
    assert folder.stat().st_ino == before
    assert read_facts(folder).layers == 3


def test_small_has_the_built_in_drafter_of_its_own_width(tmp_path: Path, random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(load, "DRAFTER", tmp_path / "missing")
    with pytest.raises(ModelError, match="missing: no weights"):
        resolve_drafter("builtin", "small")
    target = load_model(random_model, torch.float32).config
    write_drafter_folder(tmp_path / "drafter", Drafter(target).state_dict(), target, DrafterCard("tiny", "countdown", 0))
    monkeypatch.setattr(load, "DRAFTER", tmp_path / "drafter")
    folder = resolve_drafter("builtin", "small")
    assert folder is not None
    assert folder.is_relative_to(tmp_path / "home")
    assert load_file(folder / "model.safetensors")["fc.weight"].shape == (128, 256)
    assert resolve_drafter("builtin", "small") == folder


def test_character_tokenizer_reads_the_same_however_it_is_loaded(tmp_path: Path) -> None:
    tokenizer = character_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    tiny_config(len(tokenizer)).save_pretrained(tmp_path)
    text = "3 7 25=29:\n25+7=32,32-3=29!"
    ids = tokenizer(text).input_ids
    assert len(ids) == len(text)
    for loaded in (PreTrainedTokenizerFast.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)):
        assert loaded(text).input_ids == ids
        assert loaded.decode(ids) == text
    assert tokenizer("é").input_ids == [tokenizer.unk_token_id] * 2


def test_code_of_a_folder_is_neither_run_nor_asked_about(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked whether to run it"))
    (folder / "mine.py").write_text("raise SystemExit('run')")
    own = {"AutoConfig": "mine.Mine", "AutoModelForCausalLM": "mine.MineForCausalLM", "AutoTokenizer": ["mine.Tokens", None]}
    edit_json(folder / "config.json", lambda config: config.update(auto_map=own))
    assert load_model(folder, torch.float32).config.model_type == "qwen2", "which transformers knows without it"
    assert load_tokenizer(folder)
    edit_json(folder / "config.json", lambda config: config.update(model_type="mine", architectures=["MineForCausalLM"]))
    with pytest.raises(ModelError, match=r"models of the type mine need code of the folder's own, which is never run; take another model$"):
        load_model(folder, torch.float32)
