"""What ``longtail demo --real`` needs beside its two runs: the model, and a drafter for it."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from engine.config import RunConfig
from engine.models import library
from engine.preflight import fits
from longtail import Longtail
from longtail.schemas.artifacts import ListedArtifact
from longtail.schemas.projects import DEFAULT_PROJECT

RUNS, DRAFTER = ("real-plain", "real-tlt"), "real-drafter"

Configs = Mapping[str, dict[str, Any]]


def prepared(client: Longtail, console: Console, configs: Configs) -> list[tuple[str, ...]]:
    """The presets to run, one group after the other. Fetches the model if it is not there; ModelError if it cannot."""
    tlt = configs[RUNS[1]]
    model = tlt["model"]["path"]
    if library.kept(model) is None:
        console.print(f"{model} is not on this machine yet: gets it, as longtail models get {model} does")
        library.get(model, say=lambda line: console.print(f"{line} ...", markup=False, soft_wrap=True))
    if drafter := known_drafter(client, tlt):
        console.print(f"Takes the drafter of run {drafter.run_id} ({escape(drafter.run_name)}): none has to be trained")
        return [RUNS]
    console.print(f"Trains a drafter first, for about {tlt['drafter']['pretrain_minutes']:g} minutes; later demos of this kind take it")
    return [(DRAFTER,), RUNS]


def known_drafter(client: Longtail, config: Mapping[str, Any]) -> ListedArtifact | None:
    """The newest that fits the run. Should it be unusable all the same, the run trains its own."""
    project, wanted = client.me().project_id or DEFAULT_PROJECT, RunConfig.model_validate(config)
    drafters = client.all_artifacts(["drafter"], project=project).items
    return next((each for each in drafters if not each.missing and fits(each.metadata, wanted)), None)
