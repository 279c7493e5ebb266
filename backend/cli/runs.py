"""``longtail runs``, ``show``, ``tag``, ``note``, ``rename`` and ``export``: many runs, and what is written about one."""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
import yaml

from backend.cli import terminal
from backend.cli.written_files import written
from engine.errors import LongtailError
from longtail import Longtail
from longtail.run_lists import Format
from longtail.schemas.runs import Run

ID_LENGTH = 16
LONGEST = 200

console = terminal.WIDE

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or its beginning")]


@dataclass(frozen=True)
class Filters:
    """Which runs; its fields are options of every command that is ``filtered``."""

    state: Annotated[list[str] | None, typer.Option(help="Only in this state; may be repeated for any of several")] = None
    q: Annotated[str | None, typer.Option("-q", "--q", help="Part of the name or the notes, or beginning of the id")] = None
    tag: Annotated[list[str] | None, typer.Option(help="Only with this tag; may be repeated for all of several")] = None
    owner: Annotated[str | None, typer.Option(help="Only those that this user has submitted")] = None
    project: Annotated[str | None, typer.Option(help="Name or id of a project")] = None
    where: Annotated[
        list[str] | None, typer.Option(help="Condition such as config.model.path=tiny or summary.reward_mean>0.5; may be repeated")
    ] = None
    since: Annotated[datetime | None, typer.Option(help="Submitted at this local time or later")] = None
    until: Annotated[datetime | None, typer.Option(help="Submitted before this local time")] = None
    deleted: Annotated[bool, typer.Option("--deleted", help="Those that can still be restored, instead of the others")] = False

    def choice(self, client: Longtail) -> dict[str, Any]:
        """As the client's methods take it."""
        times = {"created_after": self.since and self.since.astimezone(), "created_before": self.until and self.until.astimezone()}
        place = {"project": self.project and client.project(self.project).id, "deleted": self.deleted or None}
        return times | place | {name: getattr(self, name) for name in ("state", "q", "tag", "owner", "where")}


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of Filters in place of its parameter ``filters``."""
    own, shared = (inspect.signature(each).parameters for each in (command, Filters))

    @wraps(command)
    def run(**given: Any) -> None:
        command(filters=Filters(**{name: given.pop(name) for name in shared}), **given)

    options = [*(parameter for name, parameter in own.items() if name != "filters"), *shared.values()]
    vars(run)["__signature__"] = inspect.Signature([each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options])
    return run


@filtered
def runs(
    filters: Filters,
    sort: Annotated[
        str | None, typer.Option(help="created, name, state, owner, duration or summary.KEY; with - before it, falling")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=LONGEST)] = 20,
) -> None:
    """List runs, newest first unless sorted otherwise."""
    with Longtail() as client:
        page = client.runs(limit=limit, sort=sort, **filters.choice(client))
        console.print(terminal.table(page.items))
        if page.next_cursor:
            console.print(f"and more; --limit shows up to {LONGEST}", style="dim")


def show(
    run: RunId,
    config: Annotated[bool, typer.Option("--config", help="With the whole configuration")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, as JSON")] = False,
) -> None:
    """Show a run: where it stands, what was written about it, and each attempt with what it ran in."""
    with Longtail() as client:
        found = find(client, run)
        attempts = client.attempts(found.id)
    if as_json:
        everything = {"run": found.model_dump(mode="json"), "attempts": [attempt.model_dump(mode="json") for attempt in attempts]}
        typer.echo(json.dumps(everything, indent=2))
        return
    console.print(terminal.details(found))
    if attempts:
        console.print(terminal.attempts(attempts))
    if attempts and (environment := attempts[-1].environment):
        console.print(terminal.environment(environment))
    if config:
        console.print(yaml.safe_dump(found.config, sort_keys=False), markup=False, highlight=False, soft_wrap=True)


def tag(
    run: RunId,
    tags: Annotated[list[str] | None, typer.Argument(metavar="[TAG]...", help="Tags to add")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A tag to take away; may be repeated")] = None,
) -> None:
    """Add tags to a run, or take some away."""
    with Longtail() as client:
        found = find(client, run)
        wanted = [each for each in dict.fromkeys([*found.tags, *(tags or [])]) if each not in (remove or [])]
        changed = client.change_run(found.id, found.revision, tags=wanted)
        console.print(f"{changed.id} {', '.join(changed.tags) or 'no tags'}", markup=False, highlight=False)


def note(run: RunId, text: Annotated[str, typer.Argument(help="Replaces the notes that are there")]) -> None:
    """Write notes about a run."""
    with Longtail() as client:
        client.change_run(find(client, run).id, notes=text)


def rename(run: RunId, name: Annotated[str, typer.Argument(help="The new name")]) -> None:
    """Give a run another name."""
    with Longtail() as client:
        client.change_run(find(client, run).id, name=name)


@filtered
def export(
    filters: Filters,
    out: Annotated[Path, typer.Argument(help="File to write: .csv, .json or .parquet")],
    run: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Ids of runs, or their beginnings; all that fit if left out")
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="A row for each point of each run, instead of a row for each run")] = False,
    key: Annotated[list[str] | None, typer.Option(help="Only this metric; may be repeated")] = None,
) -> None:
    """Write runs, or their metrics, as a table."""
    form = out.suffix.removeprefix(".")
    if form not in get_args(Format):
        raise LongtailError(f"{out}: a table is written as .csv, .json or .parquet")
    with Longtail() as client:
        ids = [find(client, each).id for each in run or []]
        choice = filters.choice(client) | {"run": ids or None}
        with written(out):
            if metrics or key:
                client.export_metrics(out, cast(Format, form), key or [], **choice)
            else:
                client.export_runs(out, cast(Format, form), **choice)
    console.print(f"{out}  {out.stat().st_size} bytes", highlight=False, soft_wrap=True)


def find(client: Longtail, prefix: str) -> Run:
    """The run whose id begins with ``prefix``."""
    if len(prefix) == ID_LENGTH:
        return client.run(prefix)
    found = [run for run in client.runs(q=prefix, limit=LONGEST).items if run.id.startswith(prefix)]
    if len(found) != 1:
        raise LongtailError(f"{'no run has' if not found else f'{len(found)} runs have'} an id that begins with {prefix}")
    return found[0]
