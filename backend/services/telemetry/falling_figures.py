"""Whether a run's reward has fallen: found while its events come in, told once to whoever listens."""

from collections.abc import Sequence
from statistics import fmean, variance

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.models import LogLine
from backend.services.telemetry.run_statistics import REWARD, latest_values

WINDOW = 20
ERRORS, LEAST_SHARE = 3.0, 0.1
"""By how many standard errors of the difference, and by what share of what it was, the reward has to fall to be told."""
PAUSE_STEPS = 100
CODE = "reward_fell"


def reward_fall(values: Sequence[float]) -> tuple[float, float] | None:
    """Mean rewards of the steps before the latest ``WINDOW``, as many, and of these, if that is a fall; the newest value comes first."""
    if len(values) < 2 * WINDOW:
        return None
    now, before = values[:WINDOW], values[WINDOW : 2 * WINDOW]
    was, is_now = fmean(before), fmean(now)
    error = ((variance(before) + variance(now)) / WINDOW) ** 0.5
    return (was, is_now) if was - is_now > max(ERRORS * error, LEAST_SHARE * abs(was)) else None


def fallen_reward_line(session: Session, run_id: str, step: int, ended: float) -> dict[str, object] | None:
    """The line that tells of it, after a step that ended then, unless one did in the last steps."""
    fall = reward_fall(latest_values(session, run_id, REWARD, 2 * WINDOW))
    if fall is None:
        return None
    told = select(LogLine.id).where(LogLine.run_id == run_id, LogLine.code == CODE, LogLine.step > step - PAUSE_STEPS).limit(1)
    if session.scalar(told) is not None:
        return None
    message = f"the mean reward fell from {fall[0]:.3f} to {fall[1]:.3f}, each over {WINDOW} steps: look at clip share, entropy and samples"
    line = {"run_id": run_id, "source": "platform", "time": ended, "level": "alarm", "code": CODE, "step": step}
    return line | {"message": message}
