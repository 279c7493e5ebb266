"""Runs made from another one: a clone begins anew, a retry goes on from the last checkpoint. The old one stays as it is.

A request does not read checkpoints, which may have many gigabytes. So a retry gets all that the old run has kept, and its engine begins
with the newest that verifies.
"""

import os
import shutil
import socket
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from pydantic import ValidationError

from backend.database import Database
from backend.errors import ConflictError
from backend.models import Run, new_id
from backend.services.identity.tokens import Identity
from backend.services.runs.attempts import add_log_line
from backend.services.runs.control import demand
from backend.services.runs.lookup import find
from backend.services.runs.resume_points import goes_on_after, is_kept, kept_since, named, resume_points
from backend.services.runs.submission import SubmissionKey, SubmissionOptions, accept, digest_of, earlier_submission, new_run
from backend.services.runs.validation import check_limits, known_config, validated_config
from backend.settings import Settings
from engine.checkpoint.run_folder import CHECKPOINTS, EVENTS, PRETRAINING
from engine.checkpoint.verification import VerifiedCheckpoint, listed, newest
from engine.config import merged
from engine.errors import CheckpointError
from engine.events import CheckpointSaved, parse_line
from longtail.file_chunks import chunks
from longtail.schemas.identity import Role
from longtail.schemas.runs import BEFORE_STEPS, CloneRequest
from longtail.schemas.runs import Run as RunReply


def clone(
    database: Database, settings: Settings, run_id: str, copy: CloneRequest, owner: Identity, key: SubmissionKey | None = None
) -> tuple[RunReply, bool]:
    """A new run of ``owner`` with the configuration of ``run_id`` and the changes of ``copy``, and whether it is new."""
    with database.read() as session:
        parent = find(session, run_id)
        demand(parent, "clone")
        config = validated_config(merged(parent.config | {"name": parent.name}, copy.config), settings, owner.role)
        digest = digest_of({"clone": run_id, "owner": owner.user_name} | copy.model_dump(mode="json"))
        run = new_run(config, replace(_options(parent, copy), owner=owner.user_name))
    run.parent_id = run_id
    with database.write() as session:
        if key is not None and (earlier := earlier_submission(session, key, digest)):
            return RunReply.model_validate(earlier), False
        return RunReply.model_validate(accept(session, run, key, digest)), True


def retry(database: Database, settings: Settings, run_id: str, role: Role, key: SubmissionKey | None = None) -> tuple[RunReply, bool]:
    """A new run that goes on where ``run_id`` failed or was cancelled; its log says after which step. ConflictError in other states, and
    where checkpoints that are still kept are not to be found: it would begin anew, in place of all that was done."""
    digest = digest_of({"retry": run_id})
    with database.read() as session:
        if key is not None and (earlier := earlier_submission(session, key, digest)):
            return RunReply.model_validate(earlier), False
        parent = find(session, run_id)
        demand(parent, "retry")
        config = known_config(parent.config | {"name": parent.name})
        check_limits(config, settings, role)
        run = new_run(config, _options(parent, CloneRequest()))
    found, fault, step = _checkpoint(parent, settings.run_folder(run_id))
    if not found:
        _demand_none(parent, settings, fault)
    run.id, run.parent_id, run.resumed_step = new_id(), run_id, step
    run.drafter_id = parent.drafter_id if found else None
    folder = settings.run_folder(run.id)
    try:
        if found:
            _hand_down(settings.run_folder(run_id), folder, found, step)
        with database.write() as session:
            accept(session, run, key, digest)
            origin = f"after step {step}, its last checkpoint" if found else f"at the beginning: {fault}"
            if step == BEFORE_STEPS:
                origin = "with pretraining its drafter"
            add_log_line(session, run.id, "info", "retry", f"goes on from run {run_id} {origin}")
            return RunReply.model_validate(run), True
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _demand_none(parent: Run, settings: Settings, fault: str) -> None:
    """ConflictError if ``parent`` had something to go on from, and has not ended so long ago that this is kept no more."""
    folder = settings.run_folder(parent.id)
    if (step := goes_on_after(parent)) is not None and is_kept(parent.finished_at, kept_since(settings)):
        raise ConflictError(
            f"run {parent.id} cannot go on after {named(step)} from {folder} on {socket.gethostname()}: {fault}. Mount the data folder "
            "(LONGTAIL_HOME) there, or put the checkpoints back, and retry again; to begin anew, clone the run"
        )


def _options(parent: Run, copy: CloneRequest) -> SubmissionOptions:
    given = {name: value for name in ("tags", "priority", "needs", "notes") if (value := getattr(copy, name)) is not None}
    start_after = copy.start_after.timestamp() if copy.start_after else None
    same = SubmissionOptions(tuple(parent.tags), parent.priority, parent.needs, start_after, parent.owner, parent.project_id)
    return replace(same, **given)


def _checkpoint(parent: Run, folder: Path) -> tuple[VerifiedCheckpoint | None, str, int | None]:
    """What to go on from, or why from nothing, and the step that was the last."""
    try:
        for place in resume_points(parent, folder):
            if found := newest(place, contents=False):
                return found, "", BEFORE_STEPS if place.name == PRETRAINING else found.step
    except CheckpointError as error:
        return None, str(error), None
    return None, "it has no checkpoint", None


def _hand_down(parent: Path, child: Path, found: VerifiedCheckpoint, step: int | None) -> None:
    """Gives ``child`` the checkpoint and older ones, and what they are of, such as the drafter's buffer, as hard links (no file is ever
    written again), and the events up to it."""

    def others(folder: str, names: list[str]) -> set[str]:
        steps = listed(Path(folder))
        damaged = steps[steps.index(found.path) + 1 :] if found.path in steps else []
        return {name for name in names if name.startswith(".")} | {path.name for path in damaged}

    for saved in {CHECKPOINTS, found.path.parent.name}:  # a pretraining's buffer is where that of steps is
        if (parent / saved).is_dir():
            shutil.copytree(parent / saved, child / saved, copy_function=hard_link, ignore=others)
    with (child / EVENTS).open("wb") as kept:
        kept.writelines(chunks(parent / EVENTS, 0, _length_up_to(parent / EVENTS, step)))


def _length_up_to(events: Path, step: int | None) -> int:
    """Bytes up to the last line that tells of the checkpoint of ``step``; of all whole ones where none does: what is done again replaces
    them."""
    length = saved = 0
    with events.open("rb") as lines:
        for line in takewhile(lambda line: line.endswith(b"\n"), lines):
            length += len(line)
            if b'"checkpoint"' in line and _saves(line, step):
                saved = length
    return saved or length


def _saves(line: bytes, step: int | None) -> bool:
    try:
        event = parse_line(line)
    except ValidationError:  # a crash of the machine has left it
        return False
    return isinstance(event, CheckpointSaved) and event.step == step


def hard_link(source: str, target: str) -> None:
    """A second name for a file that is never written again, or a copy where there can be none."""
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
