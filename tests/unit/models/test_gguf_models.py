"""GGUF files as models: such as the gguf package writes from the weights of a random model."""

import json
import os
import resource
import struct
import subprocess
import sys
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
from models_home import left
from transformers import AutoModelForCausalLM

from engine.errors import ModelError
from engine.models.folder import read_config
from engine.models.library import add
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve
from engine.models.weights import base_weights

pytestmark = pytest.mark.usefixtures("models")
TEXT = "It's 12 + 345,\n\tnaïve  東京 <eos> 🙂"


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
        (
            {"architecture": "gemma3"},
            "unsupported architecture gemma3; of qwen2, qwen3, llama GGUF can be read, else use the model's Hugging Face",
        ),
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
