"""``longtail demo``: the plain baseline and TLT with the same seed, one after the other, and how they compare."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from backend.cli import real_demo
from backend.cli.demo_comparison import result, table
from backend.cli.demo_progress import cancel, follow
from backend.settings import Settings
from backend.stack.child_process import answers
from backend.stack.home_folder import read_server_file
from backend.stack.local_stack import Stack
from engine.interruption import interruptible
from longtail import Longtail
from longtail.identity import shown_address
from longtail.schemas.runs import Run

RUNS = ("demo-plain", "demo-tlt")


@dataclass(frozen=True)
class Server:
    """``serve`` blocks for as long as the server is this process's to keep up."""

    url: str
    dashboard_url: str | None
    serve: Callable[[], None]


def main(exit_after: bool = False, seed: int | None = None, real: bool = False) -> int:
    """The exit code: 0 if all runs succeed, 1 if one does not, 130 if interrupted before. Serves until Ctrl-C unless ``exit_after``."""
    console = Console()
    began = time.monotonic()
    code = 130
    with suppress(KeyboardInterrupt), interruptible(), _server(console) as server, Longtail(server.url) as client:
        code = _demo(client, console, server, began, {} if seed is None else {"seed": seed}, real)
        if not exit_after:
            console.print(f"Serving {server.dashboard_url}; Ctrl-C stops")
            server.serve()
    return code


@contextmanager
def _server(console: Console) -> Iterator[Server]:
    """The stack that serves this home already, or one of our own."""
    facts = read_server_file(Settings())
    if facts is not None and facts["parts"] and answers(facts["url"] + "/healthz")():
        console.print(f"Using the Longtail that runs at {facts['url']}")
        yield Server(facts["url"], facts["dashboard_url"], lambda: None)
        return
    console.print("Starting API, job worker and dashboard")
    with Stack(settings=Settings(concurrency=1), say=console.print) as stack:
        yield Server(stack.url, stack.dashboard_url, stack.wait)


def _demo(client: Longtail, console: Console, server: Server, began: float, changes: dict[str, Any], real: bool) -> int:
    configs = {preset.name: preset.config | changes for preset in client.presets()}
    console.print(f"Dashboard: {shown_address(client, server.dashboard_url)}", soft_wrap=True, markup=False)
    groups = real_demo.prepared(client, console, configs) if real else [RUNS]
    console.print("Two runs with the same seed: plain decoding, then TLT")
    runs = _carried_out(client, console, [[configs[name] for name in group] for group in groups])
    bad = [run for run in runs if run.state != "succeeded"]
    for run in bad:
        console.print(f"{escape(run.name)} {run.state}: {escape(run.error or 'see its log in the dashboard')}", style="red")
    if bad:
        return 1
    plain, tlt = runs[-2:]
    comparison = client.compare(plain.id, [tlt.id])
    accept_length = client.metrics(tlt.id, ["accept_length"]).series["accept_length"].values
    pretrain_s = sum(run.pretraining.seconds for run in runs if run.pretraining) if real else None
    console.print(table(comparison, pretrain_s))
    page = f"/compare?runs={plain.id},{tlt.id}"
    console.print(f"Compare them at {shown_address(client, server.dashboard_url, page)}", soft_wrap=True, markup=False)
    print("RESULT " + json.dumps(result(comparison, accept_length, time.monotonic() - began, pretrain_s)), flush=True)
    return 0


def _carried_out(client: Longtail, console: Console, groups: Sequence[Sequence[dict[str, Any]]]) -> list[Run]:
    """The runs of every group, each begun when the one before it has succeeded; of the last one begun, not all may have."""
    runs: list[Run] = []
    try:
        for group in groups:
            begun = len(runs)
            runs.extend(client.submit(config, tags=["demo"]) for config in group)
            runs[begun:] = follow(client, console, runs[begun:])
            if any(run.state != "succeeded" for run in runs):
                break
    finally:
        cancel(client, console, runs)
    return runs
