"""``longtail drafter train``: a drafter for a model of one's own, by a run that only pretrains one."""

import argparse
import json
import os
import shutil
from pathlib import Path
from typing import Any

from engine.checkpoint.run_folder import ARTIFACTS, CHECKPOINTS, PRETRAINING
from engine.checkpoint.verification import newest, sha256_of
from engine.config import RunConfig, parse
from engine.config.task import GENERATED
from engine.drafter.kind import has_built_in
from engine.drafter.out_folder import writing
from engine.errors import ConfigError, StoppedError
from engine.events import AnyEvent, DrafterPretrained, Log, RunStarted
from engine.own_folders import locked

RUN, CONFIG, GIVEN = "training", "config.json", "given.sha256"
"""The run's folder in that of the drafter: what it goes on from, and its events; what it is of; and of which content of the file given."""
DONE = "config.json"
"""Of the drafter's files the last that is written: where it is, there is a drafter."""
LARGE = (PRETRAINING, CHECKPOINTS, ARTIFACTS)
"""What the run would go on from, hidden states of responses among it: of no use once there is a drafter."""
MOST_WORKERS = 4
DRAFTER = ("recipe", "path", "draft_vocabulary", "pretrain_responses")
RATES = ("pretrain_learning_rate", "pretrain_reverse_kl")
"""What is the same in every attempt of a training; the latter once a round is over."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--model", required=True, help="built-in model, name of an installed one, or a local Hugging Face folder")
    parser.add_argument("--out", type=Path, required=True, help="folder for the drafter; the same command goes on where it was killed")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompts", type=Path, help="JSONL or parquet file of prompts (column prompt or question) to respond to")
    source.add_argument("--responses", type=Path, help="JSONL or parquet file of prompts and responses, best the model's own")
    source.add_argument("--task", help=f"{', '.join(GENERATED)}, or a JSONL or parquet file of maths questions and answers")
    parser.add_argument(
        "--minutes",
        type=float,
        required=True,
        help="about how long it is trained, twice the first 8 responses at least; it ends earlier when it gains nothing",
    )
    parser.add_argument("--recipe", choices=("eagle", "hass", "eagle3"), default="hass")
    parser.add_argument("--start", help="a drafter folder to go on from, or builtin; by default it starts from the model")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the model's responses: best that of the later runs")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--max-new-tokens", type=int, default=512, help="longest response")
    parser.add_argument("--max-prompt-tokens", type=int, default=512, help="longest prompt")
    parser.add_argument("--draft-vocabulary", type=int, help="most tokens that it drafts from, without --start; 0: all of the model's")
    parser.add_argument("--workers", type=int, help="by default one a GPU, or one a core")
    parser.add_argument("--learning-rate", type=float, help="the largest")
    parser.add_argument("--seed", type=int, default=0)


def train(options: argparse.Namespace) -> None:
    """Writes the drafter's folder. ConfigError, ModelError or DataError say what does not fit."""
    _check_options(options)
    config, folder = _config(options), options.out / RUN
    taken = ConfigError(f"--out: another process is training in {folder}; wait for it, or choose another folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, taken):
        resume = _goes_on(config, folder / CONFIG)
        from engine.run import run  # here, so that wrong options are told before torch is loaded

        try:
            run(config, folder, resume, on_event=_tell)
        except (KeyboardInterrupt, StoppedError):
            raise StoppedError(f"stopped; the same command goes on after the last round that is in {folder}") from None
        with writing(options.out):
            for file in sorted((folder / ARTIFACTS / "drafter").iterdir(), key=lambda file: file.name == DONE):
                shutil.copy(file, part := options.out / f".{file.name}.part")
                part.replace(options.out / file.name)
        _remove_large(folder)
    print(f"{options.out}: measure it with longtail drafter eval {options.out} --model {options.model}")


def _remove_large(folder: Path) -> None:
    for name in LARGE:
        shutil.rmtree(folder / name, ignore_errors=True)


def _check_options(options: argparse.Namespace) -> None:
    if options.out.exists() and not options.out.is_dir():
        raise ConfigError(f"--out: {options.out} is a file; give a folder")
    if options.minutes <= 0:
        raise ConfigError("--minutes: give more than 0")
    if options.start == "":
        raise ConfigError("--start: give a drafter's folder, or leave it out to start from the model")
    if options.start in ("builtin", "auto") and not has_built_in(options.model, options.recipe):
        raise ConfigError(
            f"--start: there is no built-in drafter for {options.model} and --recipe {options.recipe}; give a drafter's folder, "
            "or leave it out to start from the model"
        )
    if options.start and options.draft_vocabulary is not None:
        raise ConfigError("--draft-vocabulary: the drafter that is given as --start keeps its own; leave one of them out")
    if (options.out / DONE).exists():
        if (options.out / RUN / GIVEN).exists():  # it may have been killed before it had removed them
            _remove_large(options.out / RUN)
        raise ConfigError(f"--out: there is a drafter in {options.out}; choose another folder, or give it as --start")
    if not (options.out / RUN / GIVEN).exists() and _has_files(options.out):
        raise ConfigError(f"--out: {options.out} has files of something else in it; choose a new folder or an empty one")


def _has_files(folder: Path) -> bool:
    """But for an empty folder of a training that was killed as it began."""
    run = folder / RUN
    return folder.is_dir() and any(each != run or not run.is_dir() or any(run.iterdir()) for each in folder.iterdir())


def _goes_on(config: RunConfig, file: Path) -> bool:
    """Whether an earlier attempt is to be gone on with. ConfigError if that was for something else; only time and workers may change."""
    wanted, given = config.model_dump(mode="json"), _checksum(config)
    if file.exists() and (file.parent / PRETRAINING).exists():
        try:
            begun = parse(json.loads(file.read_text(encoding="utf-8"))).model_dump(mode="json")  # with what is new since then
        except (ValueError, ConfigError):
            raise ConfigError(f"--out: {file} is damaged; choose another folder, or remove {file.parent}") from None
        for name in ("model", "task", "rollout", "seed"):
            if begun[name] != wanted[name]:
                raise ConfigError(f"--out: {file.parent} is of a training with another {name}; choose another folder, or remove that")
        for name in DRAFTER + (RATES if _trained(file.parent / PRETRAINING) else ()):
            if begun["drafter"][name] != wanted["drafter"][name]:
                other = f"{file.parent} is of a training with another drafter.{name}, {begun['drafter'][name]!r}"
                raise ConfigError(f"--out: {other}; choose another folder, or remove that")
        before = file.parent / GIVEN
        if before.exists() and given != before.read_text(encoding="utf-8"):
            raise ConfigError(
                f"--out: {file.parent} is of a training with other content of the file given; choose another folder, or remove that"
            )
        _write(file, wanted)
        return True
    with writing(file.parent):
        (file.parent / GIVEN).write_text(given, encoding="utf-8")
    _write(file, wanted)
    return False


def _write(file: Path, config: dict[str, Any]) -> None:
    """At once, for what is there must never be half of it."""
    aside = file.with_suffix(".part")
    with writing(file.parent):
        aside.write_text(json.dumps(config), encoding="utf-8")
        aside.replace(file)


def _trained(folder: Path) -> bool:
    """Whether a round is over. If not, other rates may go on from the first responses: the first ones may have been too high."""
    from engine.checkpoint import storage  # here, so that --help need not wait for torch
    from engine.pretraining.rounds import STATE

    found = newest(folder, contents=False)
    try:
        return found is not None and storage.read(found.path / STATE)["drafter_version"] > 0
    except ValueError:  # damaged, as the training itself will say
        return True


def _checksum(config: RunConfig) -> str:
    """Of the file of prompts or responses that is given; empty if there is none, which the run itself says of a file that is missing."""
    path = Path(config.drafter.pretrain_responses or getattr(config.task, "path", None) or "")
    return sha256_of(path) if path.is_file() else ""


def _config(options: argparse.Namespace) -> RunConfig:
    drafter: dict[str, Any] = {"path": options.start, "recipe": options.recipe, "pretrain_minutes": options.minutes}
    given = {"draft_vocabulary": options.draft_vocabulary, "pretrain_learning_rate": options.learning_rate}
    drafter |= {name: value for name, value in given.items() if value is not None}
    if options.responses:
        drafter["pretrain_responses"] = _absolute(options.responses)
    return parse(
        {
            "name": "drafter training",
            "seed": options.seed,
            "model": {"path": options.model},
            "task": _task(options),
            "algorithm": {"steps": 0, "kl_coefficient": 0},
            "rollout": {
                "temperature": options.temperature,
                "top_p": options.top_p,
                "max_new_tokens": options.max_new_tokens,
                "max_prompt_tokens": options.max_prompt_tokens,
            },
            "drafter": drafter,
            "cluster": {"workers": _workers() if options.workers is None else options.workers},
        }
    )


def _task(options: argparse.Namespace) -> dict[str, Any]:
    if options.prompts:
        return {"name": "prompts", "path": _absolute(options.prompts)}
    if options.task and options.task not in GENERATED:
        return {"name": "math", "path": _absolute(options.task)}
    return {"name": options.task or "countdown"}


def _absolute(path: str | Path) -> str:
    """Of the one folder that it is in; a file that is a link keeps its name, whose suffix tells what kind of file it is."""
    path = Path(path)
    return str(path.parent.resolve() / path.name)


def _workers() -> int:
    import torch

    return torch.cuda.device_count() or min(MOST_WORKERS, len(os.sched_getaffinity(0)))


def _tell(event: AnyEvent) -> None:
    """A line for what people wait for."""
    if isinstance(event, RunStarted):
        workers = "1 worker" if event.workers == 1 else f"{event.workers} workers"
        print(f"{workers}, {event.device}: the model writes its first responses", flush=True)
    elif isinstance(event, Log) and event.level != "error":  # which is the last word of the command
        print(event.message, flush=True)
    elif isinstance(event, DrafterPretrained):
        loss = "without training" if event.loss is None else f"loss {event.loss:.3f}"
        whole = "" if event.done else f" of about {event.end / 60:.1f}"  # the last round ends when it ends
        print(
            f"round {event.round}  {event.seconds / 60:.1f}{whole} min  {event.responses} responses  "
            f"{loss}  held out: accept length {event.accept_length:.2f}, top-1 {event.top1:.1%}",
            flush=True,
        )
