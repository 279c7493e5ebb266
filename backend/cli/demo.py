"""``longtail demo``: the plain baseline and TLT with the same seed, one after the other, and how they compare."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from backend.cli.terminal import key_figures
from backend.settings import Settings
from backend.stack.child_process import answers
from backend.stack.home_folder import read_server_file
from backend.stack.local_stack import Stack, interruptible
from longtail import Longtail
from longtail.identity import shown_address
from longtail.schemas.comparison import ComparedRun, Comparison
from longtail.schemas.runs import Run

PRESETS = ("demo-plain", "demo-tlt")
POLL_SECONDS = 0.5
LINE_SECONDS = 5.0
CANCEL_SECONDS = 15.0


@dataclass(frozen=True)
class Server:
    """``serve`` blocks for as long as the server is this process's to keep up."""

    url: str
    dashboard_url: str | None
    serve: Callable[[], None]


def main(exit_after: bool = False, seed: int | None = None) -> int:
    """The exit code: 0 if both runs succeed, 1 if one does not, 130 if interrupted before. Serves until Ctrl-C unless ``exit_after``."""
    console = Console()
    began = time.monotonic()
    code = 130
    with suppress(KeyboardInterrupt), interruptible(), _server(console) as server, Longtail(server.url) as client:
        code = _demo(client, console, server, began, {} if seed is None else {"seed": seed})
        if not exit_after:
            console.print(f"Serving {server.dashboard_url}; Ctrl-C stops")
            server.serve()
    return code


@contextmanager
def _server(console: Console) -> Iterator[Server]:
    """The stack that serves this home already, or one of our own."""
    facts = read_server_file(Settings())
    if facts is not None and answers(facts["url"] + "/healthz")():
        console.print(f"Using the Longtail that runs at {facts['url']}")
        yield Server(facts["url"], facts["dashboard_url"], lambda: None)
        return
    console.print("Starting API, job worker and dashboard")
    with Stack(settings=Settings(concurrency=1), say=console.print) as stack:
        yield Server(stack.url, stack.dashboard_url, stack.wait)


def _demo(client: Longtail, console: Console, server: Server, began: float, changes: dict[str, Any]) -> int:
    configs = {preset.name: preset.config for preset in client.presets()}
    console.print(f"Dashboard: {shown_address(client, server.dashboard_url)}", soft_wrap=True, markup=False)
    console.print("Two runs with the same seed: plain decoding, then TLT")
    runs: list[Run] = []
    try:
        runs.extend(client.submit(configs[name] | changes, tags=["demo"]) for name in PRESETS)
        runs = follow(client, console, runs)
    finally:
        cancel(client, console, runs)
    bad = [run for run in runs if run.state != "succeeded"]
    for run in bad:
        console.print(f"{escape(run.name)} {run.state}: {escape(run.error or 'see its log in the dashboard')}", style="red")
    if bad:
        return 1
    plain, tlt = runs
    comparison = client.compare(plain.id, [tlt.id])
    accept_length = client.metrics(tlt.id, ["accept_length"]).series["accept_length"].values
    console.print(table(comparison))
    page = f"/compare?runs={plain.id},{tlt.id}"
    console.print(f"Compare them at {shown_address(client, server.dashboard_url, page)}", soft_wrap=True, markup=False)
    print("RESULT " + json.dumps(result(comparison, accept_length, time.monotonic() - began)), flush=True)
    return 0


def follow(client: Longtail, console: Console, runs: Sequence[Run]) -> list[Run]:
    """Shows the runs' progress until all have succeeded or one cannot any more: bars on a terminal, else a line now and then."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[numbers]}"), TimeElapsedColumn())
    line, shown_at = "", 0.0
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bars = {run.id: progress.add_task(run.name, total=run.steps, start=False, numbers="") for run in runs}
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
    progress.update(bar, completed=run.step, numbers=escape(numbers(run)))
    if run.finished:
        progress.stop_task(bar)


def numbers(run: Run) -> str:
    """Where a run is, in a few words."""
    return f"step {run.step}/{run.steps}, {key_figures(run)}" if run.step else run.state


def cancel(client: Longtail, console: Console, runs: Sequence[Run]) -> None:
    """Cancels what has not ended, and waits until it has."""
    left = [run.id for run in runs if not run.finished and not client.run(run.id).finished]
    if not left:
        return
    console.print("Cancelling what still runs")
    for run_id in left:
        client.cancel(run_id)
    deadline = time.monotonic() + CANCEL_SECONDS
    while time.monotonic() < deadline and not all(client.run(run_id).finished for run_id in left):
        time.sleep(POLL_SECONDS)


def table(comparison: Comparison) -> Table:
    """The baseline and TLT side by side."""
    plain, tlt = comparison.items
    rows: list[tuple[str, Callable[[ComparedRun], str]]] = [
        ("time per step", lambda item: _show(item.seconds_per_step, "{:.2f} s")),
        ("rollout share of it, s", lambda item: _show(item.rollout_share, "{:.0%}")),
        ("rollout speed-up, r", lambda item: _show(item.rollout_speedup, "{:.2f}x")),
        ("end-to-end speed-up", lambda item: _show(item.e2e_speedup, "{:.2f}x")),
        ("mean reward, first -> last quarter", lambda item: f"{_show(item.reward_first, '{:.3f}')} -> {_show(item.reward_last, '{:.3f}')}"),
        ("accept length, last quarter", lambda item: _show(item.accept_length, "{:.2f}")),
        ("idle worker time used for drafter training", lambda item: _show(item.harvest, "{:.0%}")),
    ]
    result = Table("", "plain", "TLT", title=f"TLT against plain decoding, {tlt.steps} steps")
    for name, show in rows:
        result.add_row(name, show(plain), show(tlt))
    return result


def result(comparison: Comparison, accept_length: Sequence[float | None], wall_s: float) -> dict[str, Any]:
    """What other programs read; the lists hold a value for each step. ``rollout_share`` is the baseline's."""
    plain, tlt = comparison.items
    return {
        "wall_s": round(wall_s, 1),
        "e2e_speedup": tlt.e2e_speedup,
        "rollout_share": plain.rollout_share,
        "rollout_speedup": tlt.rollout_speedup,
        "reward_plain": plain.reward.values,
        "reward_tlt": tlt.reward.values,
        "accept_length": list(accept_length),
        "harvest": tlt.harvest,
    }


def _show(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
