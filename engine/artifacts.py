"""What users take away from a run: the drafter and the policy, each a folder in a zip with a checksum."""

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import fmean

from engine.cluster.group import WorkerGroup
from engine.config import RunConfig
from engine.drafter.card import Card
from engine.drafter.export import write_zip
from engine.events import ArtifactSaved, DrafterTrained, Speculation, read


def export(config: RunConfig, workers: WorkerGroup, out: Path) -> list[ArtifactSaved]:
    """Writes the zips to ``out``/artifacts; the drafter only if the run speculates."""
    folder = out / "artifacts"
    folders = workers.export(folder, _card(config, out))
    return [_zipped(path, out, config) for path in folders]


def _card(config: RunConfig, out: Path) -> Card:
    """The drafter's card: its acceptance in the last steps, and how each version came about."""
    steps: list[float] = []
    positions: list[Speculation] = []
    history: list[str] = []
    version = 0
    for event in read(out / "events.jsonl"):
        if event.kind == "step":
            steps.append(event.metrics["accept_length"])
        if isinstance(event, Speculation):
            positions.append(event)
        if isinstance(event, DrafterTrained) and event.published:
            version = event.drafter_version
            history.append(f"version {version}, after RL step {event.step}: {event.microsteps} micro-steps, {event.reason}")
    recent = max(1, len(steps) // 4)
    accept = fmean(steps[-recent:]) if steps else None
    return Card(config.model.path, config.task.name, version, accept, tuple(history), _acceptance(positions[-recent:]))


def _acceptance(steps: Sequence[Speculation]) -> tuple[float, ...]:
    """By draft position, over all ``steps``; as deep as anything was drafted."""
    drafted = map(sum, zip_longest(*(step.drafted_by_position for step in steps), fillvalue=0))
    accepted = map(sum, zip_longest(*(step.accepted_by_position for step in steps), fillvalue=0))
    return tuple(ours / all_ for ours, all_ in zip(accepted, drafted, strict=True) if all_)


def _zipped(folder: Path, out: Path, config: RunConfig) -> ArtifactSaved:
    path = folder.with_suffix(".zip")
    digest = write_zip(folder, path)
    return ArtifactSaved(
        name=path.name,
        type="drafter" if folder.name == "drafter" else "policy",
        path=str(path.relative_to(out)),
        bytes=path.stat().st_size,
        sha256=digest,
        metadata={"base_model": config.model.path, "task": config.task.name},
    )
