"""What users take away from a run: the drafter and the policy, each a folder in a zip with a checksum."""

from pathlib import Path

from engine.cluster.group import WorkerGroup
from engine.config import RunConfig
from engine.drafter.export import Card, write_zip
from engine.events import ArtifactSaved, DrafterTrained, read


def export(config: RunConfig, workers: WorkerGroup, out: Path) -> list[ArtifactSaved]:
    """Writes the zips to ``out``/artifacts; the drafter only if the run speculates."""
    folder = out / "artifacts"
    folders = workers.export(folder, _card(config, out))
    return [_zipped(path, out, config) for path in folders]


def _card(config: RunConfig, out: Path) -> Card:
    """The drafter's card: its accept length in the last steps, and how each version came about."""
    steps: list[float] = []
    history: list[str] = []
    version = 0
    for event in read(out / "events.jsonl"):
        if event.kind == "step":
            steps.append(event.metrics["accept_length"])
        if isinstance(event, DrafterTrained) and event.published:
            version = event.drafter_version
            history.append(f"version {version}, after RL step {event.step}: {event.microsteps} micro-steps, {event.reason}")
    recent = steps[-max(1, len(steps) // 4) :]
    accept = sum(recent) / len(recent) if recent else None
    return Card(config.model.path, config.task.name, version, accept, tuple(history))


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
