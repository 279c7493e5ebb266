"""``longtail backup``, ``restore``, ``verify`` and ``rebuild``: for whoever runs the platform, on its machine; they need no server."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from backend.settings import Settings

console = Console(soft_wrap=True, highlight=False)


def backup(target: Annotated[Path, typer.Argument(help="File to write, or a folder for it")]) -> None:
    """Copy database, artifacts and what runs need to go on into one file, while the platform runs."""
    from backend.backup.create import make

    path, facts = make(Settings(), target)
    console.print(f"{path}  {facts['bytes']} bytes, {facts['rows'].get('runs', 0)} runs, {facts['files']} files")
    for artifact_id in facts["missing"]:
        console.print(f"without artifact {artifact_id}, whose content is gone; longtail verify says more")


def restore(
    file: Annotated[Path, typer.Argument(help="What longtail backup has written")],
    force: Annotated[bool, typer.Option("--force", help="Put what is in home aside, and lose what is in a PostgreSQL database")] = False,
) -> None:
    """Make a platform from a backup, in an empty LONGTAIL_HOME and database."""
    from backend.backup.restore import restore as restored

    settings = Settings()
    rows = restored(settings, file, force)
    console.print(f"{rows.get('runs', 0)} runs and {rows.get('artifacts', 0)} artifacts are in {settings.home}; start with: longtail up")


def verify(
    file: Annotated[Path | None, typer.Argument(help="A backup; without one, the platform itself")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Without reading every artifact for its checksum")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Free orphans, and mark artifacts whose content is gone")] = False,
) -> None:
    """Compare database and disk, with checksums; exit code 1 if something is wrong."""
    from backend.backup.archive import Archive
    from backend.backup.verify import verify as verified

    if file is not None:
        with Archive(file) as archive:
            archive.check()
            console.print(f"{file} is whole: {len(archive.files)} files")
        return
    is_right = True
    for fault in verified(Settings(), not quick, repair):
        is_right = False
        console.print(f"{fault.what}\n  -> {fault.remedy}", markup=False)
    if not is_right:
        raise typer.Exit(1)
    console.print("nothing is wrong")


def rebuild(run: Annotated[str, typer.Argument(help="Id of a run that has ended")]) -> None:
    """Fill a run's curves, timeline, samples and logs again from its events.jsonl, should the database have lost or spoilt them."""
    from backend.backup.rebuild import rebuild_run

    console.print(f"run {run} is as its events.jsonl says, at step {rebuild_run(Settings(), run)}")
