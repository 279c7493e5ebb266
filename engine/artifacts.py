"""What users take away from a run: the drafter and the policy, each a folder in a zip with a checksum."""

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from statistics import fmean

from engine.checkpoint.run_folder import ARTIFACTS, EVENTS, UNFINISHED_ARTIFACTS
from engine.checkpoint.storage import Fence, unfenced, writing
from engine.checkpoint.verification import sha256_of
from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig
from engine.drafter.model_card import README, DrafterCard
from engine.drafter.zipped import write_zip
from engine.events import ArtifactSaved, DrafterPretrained, DrafterTrained, RunStarted, Speculation, StepFinished, read
from engine.policy.model_card import SHOWN, PolicyCard, text

WEIGHTS = "model.safetensors"
EXPECTED = "expected of chains of 4, by responses held out of its pretraining"


def export(config: RunConfig, workers: WorkerGroup, out: Path, fence: Fence = unfenced) -> Iterator[ArtifactSaved]:
    """Writes folders and zips to ``out``/artifacts: the drafter only if the run speculates, the policy only if it was trained. They are
    made aside, and put into their place unless ``fence`` raises: the drafter first, as the disk may have no room for the policy's zip."""
    fence()
    folder, card = out / ARTIFACTS, _card(config, out)
    with _aside(out) as aside:
        made = workers.export(aside, card)
        with writing(folder):
            if config.algorithm.steps:
                _describe_policy(made[0], config, out)
            folder.mkdir(exist_ok=True)
            for path in sorted(made):
                saved = _zipped(path, folder, config, card)
                fence()
                for each in (path, path.with_suffix(".zip")):
                    _put(each, folder / each.name)
                yield saved


@contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """A place that is gone at the end, whatever happens: on a full disk it may take what is left. So are those of killed exports."""
    for left in out.glob(f"{UNFINISHED_ARTIFACTS}*"):
        shutil.rmtree(left)
    aside = out / f"{UNFINISHED_ARTIFACTS}{secrets.token_hex(4)}"
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _put(made: Path, place: Path) -> None:
    """In place of what an earlier attempt may have left."""
    if place.is_dir():
        shutil.rmtree(place)
    made.rename(place)


def _card(config: RunConfig, out: Path) -> DrafterCard:
    """The drafter's card: its acceptance in the last steps, and how each version came about."""
    told: list[StepFinished | Speculation | DrafterTrained] = []
    pretrained: DrafterPretrained | None = None
    for event in read(out / EVENTS):
        if isinstance(event, RunStarted):  # what came after its checkpoint is done again
            told = [before for before in told if before.step < event.first_step]
        elif isinstance(event, DrafterPretrained):
            pretrained = event
        elif isinstance(event, StepFinished | Speculation | DrafterTrained):
            told.append(event)
    steps = [event.metrics["accept_length"] for event in told if isinstance(event, StepFinished)]
    positions = [event for event in told if isinstance(event, Speculation)]
    published = [event for event in told if isinstance(event, DrafterTrained) and event.published]
    version = published[-1].drafter_version if published else pretrained.drafter_version if pretrained else 0
    history = _began_with(config) + ([_pretrained(pretrained, config)] if pretrained else [])
    history += [
        f"version {each.drafter_version}, after RL step {each.step}: {each.microsteps} micro-steps, {each.reason}" for each in published
    ]
    card = DrafterCard(config.model.path, _learned_from(config), version, history=tuple(history))
    recent = max(1, len(steps) // 4)
    if steps:
        return replace(card, accept_length=fmean(steps[-recent:]), acceptance=_acceptance(positions[-recent:]))
    return replace(card, accept_length=pretrained.accept_length, measured=EXPECTED) if pretrained else card


def _learned_from(config: RunConfig) -> str:
    """What the drafter was trained on, and judged by: the task, or the responses that it was given where there was no RL step."""
    given = config.drafter.pretrain_responses
    return config.task.name if given is None or config.algorithm.steps else f"responses of {Path(given).name}"


def _began_with(config: RunConfig) -> list[str]:
    if config.drafter.path in (None, "auto", "builtin"):
        return []
    weights = Path(config.drafter.path).resolve() / WEIGHTS
    return [f"version 0: {weights.parent.name}, of SHA-256 `{sha256_of(weights)}`"] if weights.is_file() else []


def _pretrained(event: DrafterPretrained, config: RunConfig) -> str:
    given = config.drafter.pretrain_responses
    learned = f"{event.responses} responses{f' of {Path(given).name}' if given else ''}, {event.response_tokens} tokens"
    return f"version {event.drafter_version}, before RL step 0: {event.seconds / 60:.1f} minutes, {learned}, {event.held_out:.1%} accepted"


def _describe_policy(folder: Path, config: RunConfig, out: Path) -> None:
    """Writes the policy's model card."""
    steps = {event.step: event.metrics for event in read(out / EVENTS) if event.kind == "step"}
    rewards = [steps[step]["reward_mean"] for step in sorted(steps)]
    evaluations = [metrics for _, metrics in sorted(steps.items()) if SHOWN[0] in metrics]
    card = PolicyCard(
        config.model.path, config.task.name, config.algorithm.name, config.seed, rewards, evaluations[-1] if evaluations else {}
    )
    digests = {path.name: sha256_of(path) for path in sorted(folder.glob("*.safetensors"))}
    (folder / README).write_text(text(card, digests), encoding="utf-8")


def _acceptance(steps: Sequence[Speculation]) -> tuple[float, ...]:
    """By draft position, over all ``steps``; as deep as anything was drafted."""
    drafted = map(sum, zip_longest(*(step.drafted_by_position for step in steps), fillvalue=0))
    accepted = map(sum, zip_longest(*(step.accepted_by_position for step in steps), fillvalue=0))
    return tuple(ours / all_ for ours, all_ in zip(accepted, drafted, strict=True) if all_)


def _zipped(folder: Path, place: Path, config: RunConfig, card: DrafterCard) -> ArtifactSaved:
    """Writes the zip beside ``folder``; what there is to tell of it once it is in ``place``."""
    path = folder.with_suffix(".zip")
    digest = write_zip(folder, path)
    facts = {"base_model": config.model.path, "task": config.task.name, "steps": str(config.algorithm.steps)}
    if folder.name == "drafter":
        facts |= {"task": card.task, "recipe": config.drafter.recipe, "drafter_version": str(card.version)}
        facts |= {"accept_length": f"{card.accept_length:.3f}"} if card.accept_length is not None else {}
    return ArtifactSaved(
        name=path.name,
        type="drafter" if folder.name == "drafter" else "policy",
        path=f"{place.name}/{path.name}",
        bytes=path.stat().st_size,
        sha256=digest,
        metadata=facts,
    )
