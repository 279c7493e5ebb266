"""drafter.path: auto, with the archive that an engine makes of a drafter."""

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from backend.database import Database
from backend.jobs.engine.given_drafter import GivenDrafter
from backend.models import Artifact, LogLine, Project, Run, new_id
from backend.services.artifacts.fitting_drafters import fitting_drafters
from backend.services.artifacts.registry import record_saved
from backend.services.runs import submission
from backend.services.runs.attempts import Claim, Outcome, claim, settle
from backend.settings import Settings
from engine.config import parse
from engine.drafter.zipped import write_zip
from engine.errors import ModelError
from engine.events import ArtifactSaved
from engine.models.folder import DRAFTER
from engine.preflight import check_light
from longtail.schemas.projects import DEFAULT_PROJECT

Make = Callable[..., str]
Submit = Callable[..., Claim]


@pytest.fixture
def make(database: Database, settings: Settings, tmp_path: Path) -> Make:
    """A run that succeeded and left the built-in drafter; the artifact's id."""

    def make(
        at: float, state: str = "succeeded", project_id: str = DEFAULT_PROJECT, damaged: str = "", width: int = 160, **facts: str
    ) -> str:
        with database.write() as session:
            run = submission.submit(session, parse({"name": f"of {at}"}), submission.SubmissionOptions(project_id=project_id))[0]
            run_id, run.state = run.id, state
        folder = settings.run_folder(run_id) / "artifacts"
        shutil.copytree(DRAFTER, tmp_path / run_id / "drafter")
        config = tmp_path / run_id / "drafter" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"hidden_size": width}))
        folder.mkdir(parents=True)
        path = folder / "drafter.zip"
        digest, size = write_zip(tmp_path / run_id / "drafter", path), path.stat().st_size
        if damaged == "later":
            path.write_bytes(path.read_bytes()[::-1])
        if damaged == "from the beginning":
            path.write_bytes(badly_packed())
            digest, size = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size
        about = {"base_model": "tiny", "recipe": "hass", "drafter_version": "4"} | facts
        event = ArtifactSaved(
            time=at, name="drafter.zip", type="drafter", path="artifacts/drafter.zip", bytes=size, sha256=digest, metadata=about
        )
        with database.write() as session:
            record_saved(session, run_id, event)
            return session.scalars(select(Artifact.id).where(Artifact.run_id == run_id)).one()

    return make


def badly_packed() -> bytes:
    """A zip that can be listed but not unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("drafter/README.md", "hello " * 1000)
    content = bytearray(buffer.getvalue())
    content[47:57] = b"\xff" * 10
    return bytes(content)


@pytest.fixture
def submit(database: Database) -> Submit:
    """Takes a run with auto."""

    def submit(**changes: Any) -> Claim:
        config = {"drafter": {"path": "auto", "pretrain_minutes": 5}, **changes}
        with database.write() as session:
            run_id = submission.submit(session, parse(config), submission.SubmissionOptions())[0].id
        with database.write() as session:
            claimed = claim(session, run_id, new_id(), 60)
        assert claimed is not None
        return claimed

    return submit


def given(database: Database, settings: Settings, claimed: Claim) -> Any:
    return GivenDrafter(database, settings, claimed, lambda: None).config()["drafter"]


def test_the_newest_that_fits_is_taken_and_kept_by_every_attempt(
    database: Database, settings: Settings, make: Make, submit: Submit, tmp_path: Path
) -> None:
    make(1.0)
    fits = make(2.0)
    with database.write() as session:
        other = Project(name="other")
        session.add(other)
        session.flush()
        other_id = other.id
    make(3.0, recipe="eagle3")
    make(4.0, base_model=str(tmp_path / "another"))
    make(5.0, state="failed")
    make(6.0, project_id=other_id)
    damaged = make(7.0, damaged="later")
    make(8.0, damaged="from the beginning")
    make(9.0, width=64)  # of the model that had this name before
    claimed = submit()
    drafter = given(database, settings, claimed)
    folder = settings.run_folder(claimed.run_id) / "given_drafter"
    assert (drafter["path"], drafter["pretrain_minutes"]) == (str(folder), 0)
    assert (folder / "model.safetensors").read_bytes() == (DRAFTER / "model.safetensors").read_bytes()
    check_light(parse(claimed.config | {"drafter": drafter}))
    with database.read() as session:
        assert session.get_one(Run, claimed.run_id).drafter_id == fits
        said = select(LogLine.level, LogLine.message).where(LogLine.run_id == claimed.run_id, LogLine.code == "drafter")
        *passed_over, taken = [(level, message) for level, message in session.execute(said.order_by(LogLine.id))]
        assert f"takes drafter version 4 of run {session.get_one(Artifact, fits).run_id} (of 2.0)" in taken[1]
    assert [level for level, _ in passed_over] == ["warning"] * 3
    assert f"drafter.path auto: the content of artifact {damaged} is damaged; it is passed over" in [line for _, line in passed_over]
    make(10.0)
    shutil.rmtree(folder)
    with database.write() as session:
        settle(session, claimed.run_id, 1, Outcome("lost", error="gone"), 3)
        again = claim(session, claimed.run_id, new_id(), 60)
    assert again is not None
    assert given(database, settings, again) == drafter
    assert folder.is_dir()
    with database.read() as session:
        assert session.get_one(Run, claimed.run_id).drafter_id == fits


def test_a_copy_that_was_not_trained_is_as_old_as_what_it_is_of(database: Database, settings: Settings, make: Make, submit: Submit) -> None:
    """Taken in turn, as by run after run, it would stay the newest whatever was trained meanwhile. It serves where the other is gone."""
    first, trained = make(1.0), make(2.0)
    copy, copy_of_copy, further, gone = (
        make(at, drafter_version=version) for at, version in ((3.0, "0"), (4.0, "0"), (1.5, "3"), (0.5, "0"))
    )
    with database.write() as session:
        for artifact_id, taken in ((copy, first), (copy_of_copy, copy), (further, first), (gone, "0" * 16)):
            session.get_one(Run, session.get_one(Artifact, artifact_id).run_id).drafter_id = taken
    claimed = submit()
    with database.read() as session:
        found = fitting_drafters(session, DEFAULT_PROJECT, parse(claimed.config))
    assert found == [trained, further, first, copy, copy_of_copy, gone]
    given(database, settings, claimed)
    with database.read() as session:
        assert session.get_one(Run, claimed.run_id).drafter_id == trained


def test_where_none_fits_the_engine_chooses_in_every_attempt(database: Database, settings: Settings, make: Make, submit: Submit) -> None:
    claimed = submit()
    assert given(database, settings, claimed) == claimed.config["drafter"]
    make(1.0)
    assert given(database, settings, claimed) == claimed.config["drafter"], "it has begun without one"
    with database.read() as session:
        assert session.get_one(Run, claimed.run_id).drafter_id == ""


def test_a_run_is_told_for_which_recipe_there_would_be_one(database: Database, settings: Settings, make: Make, submit: Submit) -> None:
    make(1.0, recipe="eagle3")
    claimed = submit()
    assert given(database, settings, claimed) == claimed.config["drafter"]
    with database.read() as session:
        said = session.scalars(select(LogLine.message).where(LogLine.run_id == claimed.run_id, LogLine.code == "drafter")).one()
    assert said.endswith("There is one with drafter.recipe=eagle3, and this run has eagle")


def test_a_run_without_steps_goes_on_training_what_it_takes(database: Database, settings: Settings, make: Make, submit: Submit) -> None:
    make(1.0)
    claimed = submit(algorithm={"steps": 0})
    drafter = given(database, settings, claimed)
    assert drafter == claimed.config["drafter"] | {"path": str(settings.run_folder(claimed.run_id) / "given_drafter")}


def test_what_was_taken_and_is_gone_is_a_reason_to_fail(database: Database, settings: Settings, make: Make, submit: Submit) -> None:
    artifact_id, claimed = make(1.0), submit()
    given(database, settings, claimed)
    with database.read() as session:
        left = settings.run_folder(session.get_one(Artifact, artifact_id).run_id) / "artifacts" / "drafter.zip"
    shutil.rmtree(settings.run_folder(claimed.run_id) / "given_drafter")
    with zipfile.ZipFile(left, "a") as archive:
        archive.writestr("more", b"")
    with pytest.raises(ModelError, match=f"the drafter in artifact {artifact_id} cannot be used"):
        given(database, settings, claimed)
