"""``longtail drafter export``: a drafter folder, ours or a published one, in the format of a serving engine."""

import argparse
import shutil
from contextlib import suppress
from pathlib import Path
from typing import get_args

from engine.drafter.kind import drafter_kind
from engine.drafter.model_card import DrafterCard, base_model
from engine.drafter.out_folder import writing
from engine.errors import ConfigError
from engine.own_folders import locked

FORMATS = ("sglang", "vllm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("folder", type=Path, help="drafter folder: of a run, of longtail drafter train, or a published one")
    parser.add_argument("--format", choices=FORMATS, required=True, help="sglang: EAGLE's flat layout, also SpecForge's; vllm: speculators")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    target = "the target: a name of longtail models or a local Hugging Face folder; by default what the drafter's card names"
    parser.add_argument("--model", help=target)


def export(options: argparse.Namespace) -> None:
    """Writes the folder, whole or not at all. ConfigError or ModelError say what does not fit."""
    if not options.folder.is_dir():
        raise ConfigError(f"{options.folder}: there is no such folder")
    out: Path = options.out.absolute()
    if out.is_symlink() or out.is_mount():
        raise ConfigError(f"--out: {options.out} is a link or a mount point; choose a folder in it or beside it")
    if out.is_dir() and out.samefile(Path.cwd()):
        raise ConfigError(f"--out: {options.out} is the folder that you are in, which is to be replaced; name a new one in it")
    with writing(options.out):
        new = [each for each in (out, *out.parents) if not each.exists()]
    try:
        with writing(options.out):
            out.mkdir(parents=True, exist_ok=True)  # before the model is loaded, which may take long
            if any(out.iterdir()):
                raise ConfigError(f"{options.out}: there is something in it; choose another folder for --out")
        _export(options, out)
    finally:
        for folder in new:
            with suppress(OSError):  # what was exported is in it
                folder.rmdir()


def _export(options: argparse.Namespace, out: Path) -> None:
    from engine.drafter.export import load_drafter_folder, write_serving_folder  # here, so that --help need not wait for torch
    from engine.drafter.layout import DrafterLayout, without_copies
    from engine.drafter.serving_formats import ServingFormat
    from engine.models.load import load_model, resolve
    from engine.models.weights import ends

    assert get_args(ServingFormat) == FORMATS
    base = options.model or base_model(options.folder)
    target = load_model(resolve(base), "auto")
    embedding, head = ends(target)
    weights = without_copies(load_drafter_folder(options.folder, target.config, drafter_kind(options.folder)), embedding, head)
    card = DrafterCard(base, f"as of {options.folder.name}, which this was exported from", 0)
    taken = ConfigError(f"--out: another process is writing {options.out}; wait for it, or choose another folder")
    with writing(options.out), locked(out.with_name(f".{out.name}.part"), taken) as aside:
        for left in aside.iterdir():  # by one that was killed
            left.unlink()
        try:
            write_serving_folder(aside, weights, target.config, head, card, options.format)
            aside.replace(out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    print(f"{options.out}: the drafter for {base}, as {options.format} reads it")
    if options.format == "sglang" and DrafterLayout.of(weights).embedding:
        print("it has an embedding of its own: SGLang puts the model's in its place, so that fewer drafts may be accepted")
