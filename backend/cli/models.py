"""``longtail models``: models that runs can name. It needs no server: they lie in LONGTAIL_HOME of this machine."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from backend.cli import terminal
from engine.interruption import interruptible
from engine.models import library

models = typer.Typer(invoke_without_command=True, help="Models that runs can name as model.path.")
console = Console(soft_wrap=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="As JSON")]
Named = Annotated[str | None, typer.Option(help="Name to give it, in place of its own")]


@models.callback()
def main(context: typer.Context, as_json: AsJson = False) -> None:
    """Models that runs can name as model.path."""
    if context.invoked_subcommand is None:
        list_models(as_json)


@models.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the models of this machine: built-in ones, and those in LONGTAIL_HOME."""
    found = library.known_models()
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    shown = terminal.listing("Name", "Family", "Parameters", "Layers", "Vocabulary", "Context", "Where", overflow="fold")
    for each in found:
        counts = [each.parameters, each.layers, each.vocabulary, each.context]
        figures = ["" if count is None else f"{count:,}" for count in counts]
        shown.add_row(each.name, each.family or "", *figures, terminal.plain(each.where))
    terminal.WIDE.print(shown)
    for each in found:
        if each.fault:
            console.print(f"{each.name} cannot be used: {each.fault}", markup=False)


@models.command("get")
def get(
    source: Annotated[str, typer.Argument(metavar="MODEL", help=f"{', '.join(library.DOWNLOADS)}, or OWNER/NAME of the Hugging Face hub")],
    name: Named = None,
) -> None:
    """Download a model into LONGTAIL_HOME."""
    with interruptible():  # what it has begun is removed, but for a download that can go on
        place = library.get(source, name, _say)
    _done(place)


@models.command("add")
def add(path: Annotated[Path, typer.Argument(help="Model folder, which stays where it is, or a .gguf file")], name: Named = None) -> None:
    """Give a name to a model that is on this machine."""
    with interruptible():
        place = library.add(path, name, _say)
    _done(place)


@models.command("remove")
def remove(name: Annotated[str, typer.Argument(help="Name of a model")]) -> None:
    """Delete a model from LONGTAIL_HOME; a folder that was added stays where it is."""
    library.remove(name)


def _say(line: str) -> None:
    console.print(f"{line} ...", markup=False)


def _done(place: Path) -> None:
    console.print(f"{place.name}: {place}; a run takes it with model: {{path: {place.name}}}", markup=False)
