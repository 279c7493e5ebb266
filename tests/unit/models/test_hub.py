"""Models of the Hugging Face hub."""

import errno
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from models_home import left
from stand_in_hub import WEIGHTS, stand_in_hub

from engine.errors import ModelError
from engine.interruption import interruptible
from engine.models import hub, library
from engine.models.folder import read_facts
from engine.models.library import get

pytestmark = pytest.mark.usefixtures("models")


def quiet(_: str) -> None: ...


@pytest.mark.usefixtures("kept_signals")
def test_a_download_ends_once_it_is_told_to_and_another_goes_on_with_its_files(
    random_model: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that waits for the weights does not keep it."""
    monkeypatch.setattr("engine.interruption.ALONE", 0.2)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with stand_in_hub(random_model) as stand_in:
        monkeypatch.setenv("HF_ENDPOINT", stand_in.address)
        with pytest.raises(KeyboardInterrupt), interruptible():
            get("owner/name", say=quiet)
        assert stand_in.left.wait(10)
        assert left(models) == [".name.part"]
        assert list((models / ".name.part").rglob("*.incomplete")) == []
        assert "config.json" in left(models / ".name.part" / "made")
        stand_in.released.set()
        folder = get("owner/name", say=quiet)
        assert (stand_in.asked.count("config.json"), stand_in.asked.count(WEIGHTS)) == (1, 2)
    assert read_facts(folder) == read_facts(random_model)
    assert left(models) == ["name"]
    assert ".cache" not in left(folder)


@pytest.mark.usefixtures("kept_signals")
def test_a_download_ends_with_who_began_it(random_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be that killed, when it can end nobody."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    begin = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'engine.models.hub', 'owner/name', sys.argv[1]])"
    with stand_in_hub(random_model) as stand_in:
        monkeypatch.setenv("HF_ENDPOINT", stand_in.address)
        with subprocess.Popen([sys.executable, "-c", begin, str(tmp_path / "made")], stderr=subprocess.DEVNULL) as parent:
            with pytest.raises(KeyboardInterrupt), interruptible():
                parent.wait(60)
            parent.kill()
        assert stand_in.left.wait(10)


def test_what_cannot_be_had_is_said_in_a_line(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"owner/name cannot be had from the Hugging Face hub \(.*longtail models add FOLDER$") as refusal:
        get("owner/name", say=quiet)
    assert "\n" not in str(refusal.value)
    assert left(models) == []
    monkeypatch.setattr(library, "from_hub", hub.download)
    for impossible in ("../up", "a/b..c", "a/b--c"):
        with pytest.raises(ModelError, match=f"{impossible} cannot be a model's name on the Hugging Face hub: "):
            get(impossible, "mine", say=quiet)
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
            get(f"{owner}/model", say=quiet)
    assert left(models / ".model.part" / "made") == ["of other"]
    monkeypatch.setattr(library, "from_hub", whole)
    assert "of other" in left(get("other/model", say=quiet))
    assert left(models) == ["model"]


def test_what_is_of_no_use_is_told_before_the_weights_come_and_leaves_nothing(
    random_model: Path, tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, came = Path(shutil.copytree(random_model, tmp_path / "hub")), list[str]()

    def snapshot_download(_: str, local_dir: Path, allow_patterns: list[str], ignore_patterns: list[str]) -> None:  # noqa: ARG001
        local_dir.mkdir(parents=True, exist_ok=True)
        for file in there.iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                came.append(file.name)
                shutil.copy(file, local_dir)

    monkeypatch.setattr(library, "from_hub", hub.download)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    (there / WEIGHTS).write_bytes(b"cut off")
    with pytest.raises(ModelError, match="not readable as safetensors"):
        get("owner/name", say=quiet)
    assert left(models) == []
    came.clear()
    (there / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"no tokenizer \(tokenizer\.json\)"):
        get("owner/name", say=quiet)
    assert left(models) == []
    assert "config.json" in came
    assert WEIGHTS not in came


@pytest.mark.parametrize(("number", "stays"), [(errno.ENOSPC, []), (errno.EIO, [".name.part"])])
def test_a_download_for_which_the_disk_has_no_room_leaves_nothing(
    models: Path, monkeypatch: pytest.MonkeyPatch, number: int, stays: list[str]
) -> None:
    def snapshot_download(_: str, local_dir: Path, **__: object) -> None:
        local_dir.mkdir(parents=True)
        raise OSError(number, "it cannot be")

    monkeypatch.setattr(library, "from_hub", hub.download)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    with pytest.raises(ModelError, match=r"cannot be written: it cannot be$"):
        get("owner/name", say=quiet)
    assert left(models) == stays
