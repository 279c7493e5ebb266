"""How far the demo's runs are, on a terminal or line by line."""

import time
from collections.abc import Sequence
from http.client import CONFLICT

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from backend.cli.terminal import done, key_figures
from longtail import ApiError, Longtail
from longtail.schemas.runs import Run

POLL_SECONDS = 0.5
LINE_SECONDS = 5.0
CANCEL_SECONDS = 15.0


def follow(client: Longtail, console: Console, runs: Sequence[Run]) -> list[Run]:
    """Shows the runs' progress until all have succeeded or one cannot any more: bars on a terminal, else a line now and then."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[numbers]}"), TimeElapsedColumn())
    line, shown_at = "", 0.0
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bars = {run.id: progress.add_task(run.name, total=1, start=False, numbers="") for run in runs}
        while True:
            runs = [client.run(run.id) for run in runs]
            for run in runs:
                _move(progress, bars[run.id], run)
            settled = all(run.state == "succeeded" for run in runs) or any(run.state in ("failed", "cancelled") for run in runs)
            news = "; ".join(f"{run.name}: {numbers(run)}" for run in runs)
            if not console.is_terminal and news != line and (settled or time.monotonic() > shown_at + LINE_SECONDS):
                console.print(news, markup=False, soft_wrap=True)
                line, shown_at = news, time.monotonic()
            if settled:
                return runs
            time.sleep(POLL_SECONDS)


def _move(progress: Progress, bar: TaskID, run: Run) -> None:
    if run.started_at is not None and not progress.tasks[bar].started:
        progress.start_task(bar)
    progress.update(bar, completed=run.share_done, numbers=escape(numbers(run)))
    if run.finished:
        progress.stop_task(bar)


def numbers(run: Run) -> str:
    """Where a run is, in a few words."""
    if run.step:
        return f"step {run.step}/{run.steps}, {key_figures(run)}"
    return done(run) if run.pretrains and run.pretraining else run.state


def cancel(client: Longtail, console: Console, runs: Sequence[Run]) -> None:
    """Cancels what has not ended, and waits until it has."""
    left = [run.id for run in runs if not run.finished and not client.run(run.id).finished]
    if not left:
        return
    console.print("Cancelling what still runs")
    for run_id in left:
        try:
            client.cancel(run_id)
        except ApiError as error:
            if error.status != CONFLICT:  # else it has ended meanwhile
                raise
    deadline = time.monotonic() + CANCEL_SECONDS
    while time.monotonic() < deadline and not all(client.run(run_id).finished for run_id in left):
        time.sleep(POLL_SECONDS)
