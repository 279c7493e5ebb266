"""``longtail demo-data``: for whoever runs the platform, on its machine; it needs no server."""

import time
from contextlib import closing
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from backend.settings import Settings
from engine.errors import LongtailError

RUNS = 300

console = Console(soft_wrap=True, highlight=False)


def demo_data(
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="How many")] = RUNS,
    long_run_points: Annotated[int, typer.Option(min=0, max=20_000_000, help="One more run, of so many points; 0: none")] = 0,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="The same seed gives the same runs")] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Also beside runs that did happen")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take out all that this command has ever put in")] = False,
) -> None:
    """Fill the database with generated runs, to look around in; they have the tag demo-data."""
    from backend.database import Database
    from backend.demo_data import insertion, tracked_runs, worker_hosts
    from backend.demo_data.planned_runs import long_run, planned_runs
    from backend.jobs.maintenance.artifact_importer import import_artifacts
    from backend.migrate import upgrade
    from backend.storage.open_store import open_store

    settings, now = Settings(), time.time()
    store = open_store(settings)
    with closing(Database(settings.database)) as database:
        upgrade(database)
        generated, others = insertion.count(database)
        if remove:
            insertion.remove(database, settings, store)
            console.print(f"{generated} generated runs removed, {others} others left")
            return
        if generated:
            raise LongtailError(f"there are {generated} generated runs already; first: longtail demo-data --remove")
        if others and not yes:
            raise LongtailError(f"there are {others} runs that did happen; --yes adds generated ones, and --remove takes only those away")
        wanted = track(planned_runs(runs, seed, now), "Filling", runs, console=console, transient=True)
        longest = [long_run(long_run_points, seed, now)] if long_run_points else []
        added = [*tracked_runs.fill(database, runs, seed, now), *insertion.fill(database, longest, settings.runs)]
        added += insertion.fill(database, wanted, settings.runs)
        worker_hosts.fill(database, now)
        import_artifacts(database, settings, store)
        console.print(f"{len(added)} runs in {time.time() - now:.0f} s; look at them with: longtail up")
