"""What a run goes on from, in its next attempt or as a retry: where that is, and for how long it is kept."""

import time
from pathlib import Path

from backend.models import Run
from backend.settings import Settings
from engine.checkpoint.run_folder import CHECKPOINTS, PRETRAINING
from longtail.durations import DAY_SECONDS
from longtail.schemas.runs import BEFORE_STEPS


def goes_on_after(run: Run) -> int | None:
    """The step after whose checkpoint its next attempt goes on; BEFORE_STEPS: with pretraining its drafter; None: it begins anew."""
    step = max(run.checkpoint_step, BEFORE_STEPS if run.resumed_step is None else run.resumed_step)
    has_begun = step > BEFORE_STEPS or run.pretraining is not None or run.resumed_step is not None
    return step if has_begun else None


def named(step: int) -> str:
    """What a run that goes on after ``step`` has done, in words."""
    return f"step {step}" if step > BEFORE_STEPS else "rounds of pretraining"


def resume_points(run: Run, folder: Path) -> list[Path]:
    """Where below ``folder`` there may be what ``run`` goes on from, which it looks through in this order: checkpoints of its steps, and
    rounds of pretraining only if it has no step to lose."""
    step = goes_on_after(run)
    has_steps = step is not None and step > BEFORE_STEPS
    return [folder / name for name in ((CHECKPOINTS,) if has_steps else (CHECKPOINTS, PRETRAINING))]


def kept_since(settings: Settings) -> float:
    """Runs that did not succeed and have ended since then keep what they go on from."""
    return time.time() - settings.keep_checkpoint_days * DAY_SECONDS


def is_kept(finished_at: float | None, since: float) -> bool:
    """Also of a run of which nobody knows when it ended."""
    return finished_at is None or finished_at >= since
