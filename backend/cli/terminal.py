"""How runs look in a terminal."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from longtail import Longtail
from longtail.schemas.attempts import Attempt, Environment
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import LogLine

TRACKED_FIGURES = 3
GIB = 2**30
WIDE = Console(width=max(120, Console().width))
"""A narrow terminal wraps lines rather than to lose an id."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
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


def done(run: Run, now: datetime | None = None) -> str:
    """How far it has come: what its start is at, minutes while its drafter is pretrained, or steps."""
    latest, at = run.pretraining, run.starting_up
    if at and run.state in ("starting", "running") and not latest:
        whole = f", of about {run.pretrain_minutes:g} min" if at.pretrains else ""
        return at.phase.replace("_", " ") + (f" {at.done}/{at.total}" if at.total else whole)
    if not run.pretrains:
        return f"{run.step}/{run.steps or '?'}"
    if latest is None:
        return "drafter"
    minutes = run.seconds_pretrained(now or datetime.now(UTC)) / 60
    return f"drafter {minutes:.1f} min" if latest.done else f"drafter {minutes:.1f}/{latest.end / 60:.1f} min"


def listing(*headings: str, **options: Any) -> Table:
    """An empty table; ``options`` are those of each column."""
    return Table(*(Column(heading, **options) for heading in headings), box=None, header_style="bold")


def table(runs: Sequence[Run]) -> Table:
    shown = listing("Id", "Name", "State", "Step", "Submitted", "Tags", "Latest", no_wrap=True)
    for run in runs:
        submitted = f"{run.created_at.astimezone():%Y-%m-%d %H:%M}"
        shown.add_row(run.id, plain(run.name), state(run), done(run), submitted, plain(", ".join(run.tags)), key_figures(run))
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
        TextColumn("{task.fields[done]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", done="", figures="")
        for run in client.changes(run_id):
            total = 1 if run.steps or run.pretraining else None
            told = f"{plain(run.name)} {state(run)}"
            progress.update(task, completed=run.share_done, total=total, description=told, done=done(run), figures=key_figures(run))
    console.print(f"{run.id} {state(run)}" + (f": {plain(run.error)}" if run.error else ""))
    return run


def details(run: Run) -> Table:
    """Where a run stands, and what was written about it; facts that it lacks are left out."""
    source = run.source and f"commit {run.source.commit[:12]}{f' on {run.source.branch}' if run.source.branch else ''}"
    facts = {
        "Id": run.id,
        "Name": plain(run.name),
        "State": state(run),
        "Error": plain(run.error or ""),
        "Step": done(run),
        "Pretraining": pretraining(run),
        "Drafter from": f"artifact {run.drafter_id}" if run.drafter_id else "",
        "Latest": key_figures(run),
        "Tags": plain(", ".join(run.tags)),
        "Notes": plain(run.notes),
        "Owner": plain(run.owner or ""),
        "Project": run.project_id,
        "Submitted": _time(run.created_at),
        "Started": _time(run.started_at),
        "Finished": _time(run.finished_at),
        "Made from": f"{run.parent_id}{_gone_on_after(run.resumed_step)}" if run.parent_id else "",
        "Source": plain(f"{source}{', with changes that are not in it' if run.source.dirty else ''}") if run.source else "",
    }
    return _facts(facts)


def pretraining(run: Run, now: datetime | None = None) -> str:
    """What the training of its drafter before the first step has come to; empty without."""
    if (latest := run.pretraining) is None:
        return ""
    now = now or datetime.now(UTC)
    spent, left = run.seconds_pretrained(now) / 60, run.seconds_to_pretrain(now) / 60
    time = f"{spent:.1f} min, done" if latest.done else f"{spent:.1f} of about {latest.end / 60:.1f} min, about {left:.1f} min to go"
    written = f"{latest.responses:,} responses of {latest.response_tokens:,} tokens"
    held_out = "" if latest.accept_length is None else f", held out: accept length {latest.accept_length:.2f}"
    top1 = "" if latest.top1 is None else f", top-1 {latest.top1:.1%}"
    return f"round {latest.round}, {time}; {written}{held_out}{top1}"


def _gone_on_after(step: int | None) -> str:
    return "" if step is None else f", after step {step}" if step >= 0 else ", with pretraining its drafter"


def attempts(found: Sequence[Attempt]) -> Table:
    shown = listing("Attempt", "State", "Worker", "GPUs", "Started", "Seconds", "Exit code", "Error")
    for each in found:
        seconds = f"{(each.finished_at - each.started_at).total_seconds():.1f}" if each.finished_at else ""
        exit_code = "" if each.exit_code is None else str(each.exit_code)
        where = each.worker_id, ",".join(each.gpus)
        shown.add_row(str(each.number), each.state, *where, _time(each.started_at), seconds, exit_code, plain(each.error or ""))
    return shown


def environment(found: Environment) -> Table:
    """What an attempt ran in, without its packages."""
    gpus = ", ".join(f"{gpu.name} ({gpu.memory_bytes / GIB:.0f} GiB, driver {gpu.driver})" for gpu in found.gpus)
    longtail = found.longtail and f"commit {found.longtail.commit[:12]}{', changed' if found.longtail.dirty else ''}"
    facts = {
        "Host": found.host,
        "System": f"{found.platform}, Python {found.python}, {len(found.packages)} packages",
        "CPU": f"{found.cpu}, {found.cores} cores, {found.memory_bytes / GIB:.1f} GiB",
        "GPUs": gpus,
        "Rollout engine": found.rollout_engine or "",
        "Longtail": longtail or "",
        "Variables": "\n".join(f"{name}={value}" for name, value in found.variables.items()),
    }
    return _facts({name: plain(fact) for name, fact in facts.items()})


def plain(text: str) -> str:
    """What users wrote, as text: neither markup nor control codes of the terminal."""
    return escape(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))


def _facts(facts: Mapping[str, str]) -> Table:
    shown = Table(box=None, show_header=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, fact in facts.items():
        if fact:
            shown.add_row(name, fact)
    return shown


def _time(moment: datetime | None) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment else ""
