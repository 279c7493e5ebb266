"""How runs look in a terminal."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from backend.client import Longtail
from backend.schemas.runs import Run
from backend.schemas.telemetry import LogLine

TRACKED_FIGURES = 3
COLOURS = {"queued": "white", "starting": "cyan", "running": "cyan", "paused": "magenta"} | {
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
}


def state(run: Run) -> str:
    """Coloured, and with the word that says what is under way."""
    return f"[{COLOURS[run.state]}]{run.doing}[/]"


def key_figures(run: Run) -> str:
    """The latest step in a few words; empty before the first."""
    if run.kind == "tracked":
        known = ((key, value) for key, value in run.summary.items() if value is not None)
        return ", ".join(f"{escape(key)} {value:.4g}" for key, value in islice(known, TRACKED_FIGURES))
    formats = {
        "reward_mean": "reward {:.2f}",
        "accept_length": "accept {:.2f}",
        "step_seconds": "{:.1f} s/step",
        "rollout_share": "rollout {:.0%}",
    }
    values = {key: run.summary.get(key) for key in formats}
    return ", ".join(formats[key].format(value) for key, value in values.items() if value is not None)


def table(runs: Sequence[Run]) -> Table:
    shown = Table(box=None, header_style="bold")
    for heading in ("Id", "Name", "State", "Step", "Submitted", "Latest"):
        shown.add_column(heading, no_wrap=True)
    for run in runs:
        submitted = f"{run.created_at.astimezone():%Y-%m-%d %H:%M}"
        shown.add_row(run.id, escape(run.name), state(run), f"{run.step}/{run.steps or '?'}", submitted, key_figures(run))
    return shown


def log_line(line: LogLine) -> str:
    """As plain text, whatever is in it."""
    where = "" if line.step is None else f"step {line.step}: "
    text = "".join(letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in line.message)
    return f"{datetime.fromtimestamp(line.time).astimezone():%Y-%m-%d %H:%M:%S}  {line.level:<7}  {where}{text}"


def follow(client: Longtail, run_id: str, console: Console) -> Run:
    """Shows progress until the run is finished; the finished run."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", figures="")
        for run in client.changes(run_id):
            progress.update(
                task, completed=run.step, total=run.steps or None, description=f"{escape(run.name)} {state(run)}", figures=key_figures(run)
            )
    console.print(f"{run.id} {state(run)}" + (f": {escape(run.error)}" if run.error else ""))
    return run
