"""How runs look in a terminal."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from backend.client import Longtail
from backend.schemas.runs import Run

POLL_SECONDS = 0.5
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
        shown.add_row(run.id, escape(run.name), state(run), f"{run.step}/{run.steps}", submitted, key_figures(run))
    return shown


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
        while True:
            run = client.run(run_id)
            progress.update(
                task, completed=run.step, total=run.steps, description=f"{escape(run.name)} {state(run)}", figures=key_figures(run)
            )
            if run.finished:
                break
            time.sleep(POLL_SECONDS)
    console.print(f"{run.id} {state(run)}" + (f": {escape(run.error)}" if run.error else ""))
    return run
