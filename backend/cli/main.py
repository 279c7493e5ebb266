"""``longtail``: everything from a shell, over REST. An error is one line on stderr and exit code 2."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console
from sqlalchemy.exc import ArgumentError, DBAPIError
from typer.core import TyperGroup

from backend import start_faults
from backend.cli import backup, demo_data, identity, models, projects, runs, terminal, webhooks
from backend.cli.plans import plan_arguments
from backend.cli.runs import RunId, find
from backend.cli.written_files import written
from backend.services.runs.git_state import git_state
from engine.config import load
from engine.errors import USER_ERROR, LongtailError
from engine.interruption import INTERRUPTED, interruptible, run_child
from engine.models.library import kept
from longtail import ApiError, Longtail
from longtail.schemas.artifacts import ArtifactType
from longtail.schemas.runs import BEFORE_STEPS, Run
from longtail.schemas.telemetry import Level, LogLine

PASS_ON: Mapping[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
PATHS = (("model", "path"), ("drafter", "path"), ("drafter", "pretrain_responses"), ("task", "path"))
BUILT_IN = ("tiny", "small", "builtin", "auto")
PLATFORM_BENCHES = ("ingest", "api", "pages", "platform")


class Commands(TyperGroup):
    """Says a user's mistake without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (ApiError, LongtailError) as error:
            said = str(error)
        except OSError as error:
            if error.filename is None:  # of no file that was named
                raise
            said = f"{error.filename}: {error.strerror}"
        except (ValidationError, SettingsError, DBAPIError, ArgumentError) as error:
            if not (said := start_faults.said(error)):
                raise
        Console(stderr=True, soft_wrap=True).print(f"longtail: {said}", markup=False, highlight=False)
        raise typer.Exit(USER_ERROR)


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, help="Reinforcement learning with TLT, from a shell.")
console = Console()


@app.command()
def up(
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the API; 0 for any free one")] = None,
    dashboard_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 for any free one")] = None,
    dashboard: Annotated[bool, typer.Option(help="With the dashboard")] = True,
) -> None:
    """Start API, job worker and dashboard on this machine."""
    from backend.stack import local_stack

    local_stack.main(port=port, dashboard_port=dashboard_port, dashboard=dashboard)


@app.command()
def demo(
    exit_: Annotated[bool, typer.Option("--exit", help="Stop when both runs are done")] = False,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of both runs, in place of the preset's")] = None,
    real: Annotated[bool, typer.Option("--real", help="With SmolLM2-135M-Instruct, fetched if need be: 17 minutes on two cores")] = False,
) -> None:
    """Run the plain baseline and TLT, and compare them."""
    from backend.cli import demo as demonstration

    raise typer.Exit(demonstration.main(exit_after=exit_, seed=seed, real=real))


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(help="Run configuration (YAML)")],
    name: Annotated[str | None, typer.Option(help="Name of the run, in place of the file's")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be repeated")] = None,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Higher goes first")] = 0,
    needs: Annotated[str | None, typer.Option(help="Label of the workers that may carry it, such as gpu:h200")] = None,
    start_after: Annotated[datetime | None, typer.Option(help="Not before this local time")] = None,
    project: Annotated[str | None, typer.Option(help="Name or id of the project that it belongs to")] = None,
    notes: Annotated[str, typer.Option(help="What to remember about it")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run; exit code 1 if it does not succeed")] = False,
) -> None:
    """Submit a run; prints its id."""
    config = load(file).model_dump(mode="json")
    with Longtail() as client:
        named = _anchored(config) | ({"name": name} if name else {})
        run = client.submit(
            named,
            tag or [],
            priority=priority,
            needs=needs,
            start_after=start_after and start_after.astimezone(),
            project_id=project and client.project(project).id,
            notes=notes,
            source=git_state(Path.cwd()),
        )
        typer.echo(run.id)
        if watch:
            _follow(client, run.id)


@app.command()
def watch(run: RunId) -> None:
    """Follow a run; exit code 0 if it succeeds, else 1."""
    with Longtail() as client:
        _follow(client, find(client, run).id)


@app.command()
def logs(
    run: RunId,
    tail: Annotated[int, typer.Option(min=1, max=1000, help="The last so many lines")] = 100,
    level: Annotated[Level | None, typer.Option(help="Only lines of this level")] = None,
    contains: Annotated[str, typer.Option(help="Only lines with this text")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run is finished")] = False,
) -> None:
    """Print a run's log lines and alarms."""
    with Longtail() as client:
        run_id, levels = find(client, run).id, [level] if level else []
        lines = client.logs(run_id, tail=tail, levels=levels, contains=contains)
        for line in lines:
            typer.echo(terminal.log_line(line))
        for new in client.follow(run_id, lines[-1].id if lines else 0) if follow else ():
            if isinstance(new, LogLine) and new.level in (levels or [new.level]) and contains.lower() in new.message.lower():
                typer.echo(terminal.log_line(new))


@app.command()
def cancel(run: RunId) -> None:
    """Stop a run."""
    _do(Longtail.cancel, run)


@app.command()
def pause(run: RunId) -> None:
    """Stop a run at its next step boundary, until it is resumed."""
    _do(Longtail.pause, run)


@app.command()
def resume(run: RunId) -> None:
    """Let a paused run go on from its last checkpoint."""
    _do(Longtail.resume, run)


@app.command()
def retry(run: RunId) -> None:
    """Make a new run that goes on from the last checkpoint of a failed or cancelled one."""
    made = _do(Longtail.retry, run)
    step = made.resumed_step
    origin = "from the beginning" if step is None else f"from the checkpoint after step {step}"
    console.print("on with pretraining its drafter" if step == BEFORE_STEPS else origin)


@app.command()
def clone(
    run: RunId,
    name: Annotated[str | None, typer.Option(help="Name of the new run")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of the new run")] = None,
) -> None:
    """Make a new run with the same configuration, from the beginning."""
    given = {"name": name, "seed": seed}
    changes = {field: value for field, value in given.items() if value is not None}
    _do(lambda client, run_id: client.clone(run_id, changes), run)


@app.command()
def delete(run: RunId) -> None:
    """Delete a finished run; for some days it can be restored."""
    with Longtail() as client:
        found = find(client, run)
        client.delete(found.id)
        console.print(f"{found.id} deleted; longtail undelete {found.id} takes that back", soft_wrap=True)


@app.command()
def undelete(run_id: Annotated[str, typer.Argument(metavar="RUN", help="Whole id of a deleted run")]) -> None:
    """Take back a deletion."""
    with Longtail() as client:
        restored = client.restore(run_id)
        console.print(f"{restored.id} {terminal.state(restored)}")


@app.command()
def download(
    run: RunId,
    name: Annotated[str | None, typer.Argument(help="Name of one artifact; all if left out")] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to")] = Path(),
) -> None:
    """Download a run's artifacts, such as its drafter: the latest version of each. A download that broke off goes on where it was."""
    with Longtail() as client:
        found = find(client, run)
        versions = sorted(client.artifacts(found.id), key=lambda artifact: artifact.version)
        artifacts = {artifact.name: artifact for artifact in versions if name in (None, artifact.name)}
        if not artifacts:
            raise LongtailError(f"run {found.id} ({found.state}) has no artifact" + (f" named {name}" if name else " yet"))
        with written(out):
            out.mkdir(parents=True, exist_ok=True)
        for artifact in artifacts.values():
            path = out / artifact.file_name
            with written(path):
                client.download(artifact.id, path)
            console.print(f"{path}  {artifact.bytes} bytes", highlight=False)


@app.command()
def upload(
    run: RunId,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="safetensors, JSON, text, or a .zip or .tar of those")],
    type_: Annotated[str, typer.Option("--type", help=", ".join(get_args(ArtifactType)))] = "file",
) -> None:
    """Keep a file with a run."""
    if type_ not in get_args(ArtifactType):
        raise LongtailError(f"{type_} is no type of artifact: {', '.join(get_args(ArtifactType))}")
    with Longtail() as client:
        artifact = client.upload(find(client, run).id, file, cast(ArtifactType, type_))
        console.print(f"{artifact.id} {artifact.file_name} version {artifact.version}  {artifact.bytes} bytes", highlight=False)


for command in (runs.runs, runs.show, runs.tag, runs.note, runs.rename, runs.export, identity.login, identity.logout):
    app.command()(command)
app.command("open")(identity.open_dashboard)
for command in (backup.backup, backup.restore, backup.verify, backup.rebuild, demo_data.demo_data):
    app.command()(command)
for name, group in {
    "models": models.models,
    "project": projects.project,
    "user": identity.user,
    "token": identity.token,
    "webhook": webhooks.webhook,
}.items():
    app.add_typer(group, name=name)


@app.command(context_settings=dict(PASS_ON))
def bench(context: typer.Context) -> None:
    """Measure: longtail bench NAME [--json FILE] [--quick]."""
    ours = bool(set(context.args) & set(PLATFORM_BENCHES))
    _run_module("backend.bench" if ours else "engine.bench", context)


@app.command(context_settings=dict(PASS_ON))
def drafter(context: typer.Context) -> None:
    """Train, measure or export a drafter: longtail drafter train | eval | export; each has --help."""
    _run_module("engine.drafter", context)


@app.command(context_settings=dict(PASS_ON))
def warmstart(context: typer.Context) -> None:
    """Train the built-in model from scratch by its recipe."""
    _run_module("engine.warmstart", context)


@app.command(context_settings=dict(PASS_ON))
def trace(context: typer.Context) -> None:
    """Write a run's timeline for Perfetto: longtail trace RUN_FOLDER [--out trace.json]."""
    _run_module("engine", context, "trace")


@app.command("plan-memory", context_settings=dict(PASS_ON))
def plan_memory(context: typer.Context) -> None:
    """Whether a run fits into its GPUs: longtail plan-memory 7B --nodes 1 --gpus 8 [--known]."""
    _run_module("engine.planner", context)


@app.command(context_settings=dict(PASS_ON))
def plan(context: typer.Context) -> None:
    """What a run will take: longtail plan run.yaml --gpus h100:64 [--trace RUN], RUN being a run's id or its folder."""
    with plan_arguments(context.args) as arguments:
        raise typer.Exit(subprocess.run([sys.executable, "-m", "engine.planner.plan_command", *arguments], check=False).returncode)


def _run_module(module: str, context: typer.Context, *arguments: str) -> None:
    try:
        with interruptible():
            code, _ = run_child([sys.executable, "-m", module, *arguments, *context.args])
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)


def _do(action: Callable[[Longtail, str], Run], prefix: str) -> Run:
    with Longtail() as client:
        run = action(client, find(client, prefix).id)
        console.print(f"{run.id} {terminal.state(run)}")
        return run


def _follow(client: Longtail, run_id: str) -> None:
    if terminal.follow(client, run_id, console).state != "succeeded":
        raise typer.Exit(1)


def _anchored(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` with paths that exist here made absolute, as the worker may run in another folder; a model of that name is
    meant before a folder."""
    anchored = dict(config)
    for section, name in PATHS:
        path = config[section].get(name)
        named = path in BUILT_IN or (section == "model" and kept(path) is not None)
        if path and not named and Path(path).exists():
            anchored[section] = anchored[section] | {name: str(Path(path).absolute())}
    return anchored
