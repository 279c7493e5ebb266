"""What finished runs keep on disk."""

import time
from pathlib import Path

import pytest
from sqlalchemy import update

from backend.database import Database
from backend.jobs.maintenance.retention import apply_retention
from backend.models import Run
from backend.settings import Settings
from engine.checkpoint import storage
from engine.checkpoint.verification import listed
from longtail.schemas.runs import RunState

DAY = 86400.0
RETRIABLE = ["checkpoints/drafter_0", "checkpoints/step_000002", "given_drafter/part", "pretraining/step_000005"]


def furnish(settings: Settings, run_id: str) -> Path:
    folder = settings.run_folder(run_id)
    for step in (1, 2, 3):
        storage.save(folder / "checkpoints", step, {"state.json": step})
    (folder / "checkpoints/step_000003/state.json").write_text("damaged")
    (folder / "checkpoints/drafter_0").mkdir()
    for step in (4, 5):
        storage.save(folder / "pretraining", step, {"state.json": step})
    (folder / "given_drafter/part").mkdir(parents=True)
    (folder / "artifacts").mkdir()
    (folder / ".artifacts.0a1b2c3d/policy").mkdir(parents=True)
    return folder


def put(database: Database, run_id: str, state: RunState, finished_ago: float = 0.0, **values: float) -> None:
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run_id).values(state=state, finished_at=time.time() - finished_ago, **values))


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/*"))


@pytest.mark.parametrize(
    ("state", "finished_ago", "kept"),
    [
        ("succeeded", 0.0, []),
        ("failed", 0.0, RETRIABLE),
        ("cancelled", 29 * DAY, RETRIABLE),
        ("failed", 31 * DAY, []),
    ],
)
def test_a_finished_run_keeps_what_somebody_can_still_use(
    database: Database, settings: Settings, run_id: str, state: RunState, finished_ago: float, kept: list[str]
) -> None:
    folder = furnish(settings, run_id)
    put(database, run_id, state, finished_ago)
    apply_retention(database, settings)
    assert left(folder) == kept
    assert (folder / "artifacts").is_dir()


def test_a_checkpoint_that_is_alone_is_not_read(
    database: Database, settings: Settings, run_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = settings.run_folder(run_id) / "checkpoints"
    storage.save(checkpoints, 1, {"state.json": 1})
    (checkpoints / "step_000001/state.json").write_text("damaged")
    put(database, run_id, "failed")
    apply_retention(database, settings)
    assert (len(listed(checkpoints)), caplog.messages) == (1, [])


@pytest.mark.parametrize("state", ["queued", "running", "paused"])
def test_a_run_that_goes_on_keeps_everything(database: Database, settings: Settings, run_id: str, state: RunState) -> None:
    folder = furnish(settings, run_id)
    before = left(folder)
    put(database, run_id, state)
    apply_retention(database, settings)
    assert left(folder) == before


def test_a_failed_run_loses_its_checkpoint_when_its_days_are_over(database: Database, settings: Settings, run_id: str) -> None:
    folder = furnish(settings, run_id)
    put(database, run_id, "failed", finished_ago=31 * DAY, tidied_at=time.time() - 31 * DAY)
    apply_retention(database, settings)
    assert left(folder) == []


def test_a_deleted_run_goes_for_good_when_its_days_are_over(database: Database, settings: Settings, run_id: str) -> None:
    folder = furnish(settings, run_id)
    put(database, run_id, "failed", deleted_at=time.time() - 6 * DAY)
    apply_retention(database, settings)
    assert folder.exists()
    put(database, run_id, "failed", deleted_at=time.time() - 8 * DAY)
    apply_retention(database, settings)
    assert not folder.exists()
    with database.read() as session:
        assert session.get(Run, run_id) is None
