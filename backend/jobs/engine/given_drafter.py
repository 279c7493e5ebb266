"""``drafter.path: auto``: gives an engine the newest drafter of the platform that fits its run, as a folder in the run's own."""

import hashlib
import logging
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import update

from backend.database import Database, affected
from backend.errors import NotFoundError
from backend.models import Artifact, Run
from backend.services.artifacts.fitting_drafters import fitting_drafters, wants_one
from backend.services.artifacts.registry import content
from backend.services.runs.attempts import Claim, LeaseLostError, add_log_line
from backend.settings import Settings
from backend.storage.open_store import open_store
from engine.config import merged
from engine.drafter.kind import RECIPE_KINDS, drafter_kind
from engine.errors import ModelError

GIVEN = "given_drafter"
PARTS = ("README.md", "config.json", "model.safetensors")
NOT_TRAINED = {"pretrain_minutes": 0, "pretrain_responses": None}

logger = logging.getLogger(__name__)


def with_given_drafter(database: Database, settings: Settings, claim: Claim, keep_lease: Callable[[], object]) -> Mapping[str, Any]:
    """The run's configuration, with the folder of the drafter that ``auto`` stands for in its place; every attempt gets the same one. A
    run with steps does not pretrain it, one without goes on training it. As it is where none fits.

    ``keep_lease`` is called while a large file is copied. ModelError if the drafter was given before and is gone now.
    """
    if not wants_one(claim.config):
        return claim.config
    with database.read() as session:
        run = session.get_one(Run, claim.run_id)
        known, fitting = run.drafter_id, [] if run.drafter_id is not None else fitting_drafters(session, run)
    folder = settings.run_folder(claim.run_id) / GIVEN
    if known and not folder.is_dir():
        _unpack(database, settings, known, claim.config, folder, keep_lease)
    if known is None:
        known = _choose(database, settings, claim, fitting, folder, keep_lease)
    if not known:
        return claim.config
    return merged(claim.config, {"drafter": {"path": str(folder)} | (NOT_TRAINED if claim.config["algorithm"]["steps"] else {})})


def _choose(
    database: Database, settings: Settings, claim: Claim, fitting: list[str], folder: Path, keep_lease: Callable[[], object]
) -> str:
    """The first that can be unpacked, which is put on record; empty if none can."""
    shutil.rmtree(folder, ignore_errors=True)
    chosen = ""
    for artifact_id in fitting:
        try:
            _unpack(database, settings, artifact_id, claim.config, folder, keep_lease)
        except ModelError as error:
            logger.warning("run %s: %s", claim.run_id, error)
        else:
            chosen = artifact_id
            break
    with database.write() as session:
        mine = (Run.id == claim.run_id, Run.attempt == claim.attempt)
        if not affected(session, update(Run).where(*mine).values(drafter_id=chosen)):
            raise LeaseLostError
        message = f"drafter.path auto: no drafter of this project fits {claim.config['model']['path']}; the engine's own choice"
        if chosen and (artifact := session.get_one(Artifact, chosen)):
            version = artifact.details.get("drafter_version", "of unknown number")
            message = (
                f"drafter.path auto: takes drafter version {version} of run {artifact.run_id} ({artifact.run_name}), artifact {chosen}"
            )
        add_log_line(session, claim.run_id, "info", "drafter", message)
    return chosen


def _unpack(
    database: Database, settings: Settings, artifact_id: str, config: Mapping[str, Any], folder: Path, keep_lease: Callable[[], object]
) -> None:
    """Makes ``folder`` whole or not at all. ModelError if the artifact's content is gone, damaged, or no drafter of the kind."""
    aside, archive = folder.with_name(f".{GIVEN}"), folder.with_name(f".{GIVEN}.zip")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        with database.read() as session:
            found = content(session, settings, open_store(settings), artifact_id)
        digest = hashlib.sha256()
        with archive.open("wb") as file:
            for chunk in found.read(0, found.size):
                digest.update(chunk)
                file.write(chunk)
                keep_lease()
        if digest.hexdigest() != found.sha256:
            raise ModelError(f"the content of artifact {artifact_id}, a drafter, is damaged")
        _extract(archive, aside, keep_lease)
        if drafter_kind(aside) != RECIPE_KINDS[config["drafter"]["recipe"]]:
            raise ModelError(f"artifact {artifact_id} is no drafter of recipe {config['drafter']['recipe']}")
        aside.replace(folder)
    except (NotFoundError, FileNotFoundError, KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"drafter.path auto: the drafter in artifact {artifact_id} cannot be used: {error}; name another one") from None
    finally:
        archive.unlink(missing_ok=True)
        shutil.rmtree(aside, ignore_errors=True)


def _extract(archive: Path, folder: Path, keep_lease: Callable[[], object]) -> None:
    """The parts of a drafter; KeyError if one is not there."""
    with zipfile.ZipFile(archive) as zipped:
        for part in PARTS:
            with zipped.open(f"drafter/{part}") as source, (folder / part).open("wb") as target:
                while chunk := source.read(2**20):
                    target.write(chunk)
                    keep_lease()
