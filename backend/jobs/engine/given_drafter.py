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
from backend.services.artifacts.file_inspection import UNREADABLE
from backend.services.artifacts.fitting_drafters import fitting_drafters, fitting_recipes, wants_one
from backend.services.artifacts.registry import content
from backend.services.runs.attempts import Claim, LeaseLostError, add_log_line
from backend.settings import Settings
from backend.storage.open_store import open_store
from engine.config import merged, parse
from engine.errors import ModelError
from engine.preflight import check_drafter

GIVEN = "given_drafter"
PARTS = ("README.md", "config.json", "model.safetensors")
NOT_TRAINED = {"pretrain_minutes": 0, "pretrain_responses": None}
CHUNK = 2**20

logger = logging.getLogger(__name__)


class GivenDrafter:
    """What ``auto`` stands for in a run: every attempt at it gets the same."""

    def __init__(self, database: Database, settings: Settings, claim: Claim, keep_lease: Callable[[], object]) -> None:
        """``keep_lease`` is called while a large file is copied."""
        self._database, self._settings, self._claim, self._keep_lease = database, settings, claim, keep_lease
        self._folder = settings.run_folder(claim.run_id) / GIVEN

    def config(self) -> Mapping[str, Any]:
        """The run's configuration with the drafter's folder: one with steps does not pretrain that, one without goes on training it. As it
        is where none fits. ModelError if the drafter was given before and is gone now."""
        config = self._claim.config
        if not wants_one(config):
            return config
        with self._database.read() as session:
            known = session.get_one(Run, self._claim.run_id).drafter_id
        if known and not self._folder.is_dir():
            self._unpack(known)
        if known is None:
            known = self._choose()
        if not known:
            return config
        return merged(config, {"drafter": {"path": str(self._folder)} | (NOT_TRAINED if config["algorithm"]["steps"] else {})})

    def _choose(self) -> str:
        """The newest that can be unpacked, which is put on record; empty if there is none."""
        run_id, config = self._claim.run_id, self._claim.config
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._database.read() as session:
            wanted = session.get_one(Run, run_id).project_id, parse(config)
            fitting = fitting_drafters(session, *wanted)
            others = [] if fitting else fitting_recipes(session, *wanted)
        skipped: list[str] = []
        chosen = next((artifact_id for artifact_id in fitting if self._unpacked(artifact_id, skipped)), "")
        message = f"no drafter of this project fits {config['model']['path']}: the engine looks for itself"
        if others:
            message += f". There is one with drafter.recipe={' or '.join(others)}, and this run has {config['drafter']['recipe']}"
        with self._database.write() as session:
            mine = (Run.id == run_id, Run.attempt == self._claim.attempt)
            if not affected(session, update(Run).where(*mine).values(drafter_id=chosen)):
                raise LeaseLostError
            for reason in skipped:
                add_log_line(session, run_id, "warning", "drafter", f"{reason}; it is passed over")
            if chosen:
                artifact = session.get_one(Artifact, chosen)
                version = artifact.details.get("drafter_version", "of unknown number")
                message = f"takes drafter version {version} of run {artifact.run_id} ({artifact.run_name}), artifact {chosen}"
            add_log_line(session, run_id, "info", "drafter", f"drafter.path auto: {message}")
        return chosen

    def _unpacked(self, artifact_id: str, skipped: list[str]) -> bool:
        """If it cannot be, ``skipped`` gets the reason."""
        try:
            self._unpack(artifact_id)
        except ModelError as error:
            logger.warning("run %s: %s", self._claim.run_id, error)
            skipped.append(str(error).rpartition("; ")[0] or str(error))  # without what the user would have to do
            return False
        return True

    def _unpack(self, artifact_id: str) -> None:
        """Makes the folder whole or not at all. ModelError if the artifact's content is gone, damaged, or no drafter of the kind."""
        aside, archive = (self._folder.with_name(f".{GIVEN}{suffix}") for suffix in ("", ".zip"))
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            self._fetch(artifact_id, archive)
            self._extract(archive, aside)
            check_drafter(parse(merged(self._claim.config, {"drafter": {"path": str(aside)}})))
            aside.replace(self._folder)
        except (NotFoundError, FileNotFoundError, KeyError, *UNREADABLE) as error:
            raise ModelError(
                f"drafter.path auto: the drafter in artifact {artifact_id} cannot be used: {error}; name another one"
            ) from None
        finally:
            archive.unlink(missing_ok=True)
            shutil.rmtree(aside, ignore_errors=True)

    def _fetch(self, artifact_id: str, archive: Path) -> None:
        with self._database.read() as session:
            found = content(session, self._settings, open_store(self._settings), artifact_id)
        digest = hashlib.sha256()
        with archive.open("wb") as file:
            for chunk in found.read(0, found.size):
                digest.update(chunk)
                file.write(chunk)
                self._keep_lease()
        if digest.hexdigest() != found.sha256:
            raise ModelError(f"drafter.path auto: the content of artifact {artifact_id} is damaged; name another drafter")

    def _extract(self, archive: Path, folder: Path) -> None:
        """The parts of a drafter; KeyError if one is not there."""
        with zipfile.ZipFile(archive) as zipped:
            for part in PARTS:
                with zipped.open(f"drafter/{part}") as source, (folder / part).open("wb") as target:
                    while chunk := source.read(CHUNK):
                        target.write(chunk)
                        self._keep_lease()
