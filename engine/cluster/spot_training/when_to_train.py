"""When idle workers train the drafter: at every step while that helps and pays, then less and less often, or when something asks for it.
Pure.

TLT trains every 10 RL steps (section 3); a drafter that falls behind its target is seen earlier, by what the rollouts measure.
"""

from dataclasses import dataclass, replace
from math import hypot, sqrt

from engine.cluster.spot_training.session_value import SessionValue
from engine.config import TriggerConfig

LEAST_DRAFTED = 64
"""First draft tokens below which a rollout says too little about acceptance."""
ERRORS = 2.0
"""Standard errors of the difference of two rollouts' acceptance, in which a fall is chance: the best of them was lucky, too."""
LEAST_MICROSTEPS = 8
"""Of a session; a shorter one says nothing about what longer ones would bring."""


@dataclass(frozen=True)
class TrainingHistory:
    """What was measured up to now. ``flat``: sessions in a row that gained too little; ``best`` and ``newest``: acceptance of first
    draft tokens, the most of a rollout since the one with the last session and that of the last one, with their standard errors; ``drift``
    of the target since then."""

    last: int | None = None
    flat: int = 0
    best: float | None = None
    newest: float | None = None
    best_error: float = 0.0
    newest_error: float = 0.0
    drift: float = 0.0


@dataclass(frozen=True)
class TrainingDecision:
    train: bool
    reason: str


def decide(
    history: TrainingHistory, step: int, config: TriggerConfig, value: SessionValue | None = None, left: int = 0
) -> TrainingDecision:
    """Whether idle workers shall train in RL step ``step``, behind which ``left`` are to come; ``value``: what that was measured to be
    worth, if it was."""
    if history.last is None:
        return TrainingDecision(True, "nothing was trained yet")
    since, fell = step - history.last, _fell(history, config)
    due = since >= config.every or fell or history.drift >= config.drift
    if value and not due and not value.pays(left):
        return TrainingDecision(False, "training costs more than it would save")
    if value and not due and value.looks(step):
        return TrainingDecision(False, "training costs are measured: decoding is timed beside workers that wait")
    if history.flat < config.patience:
        return TrainingDecision(True, "training still helps")
    if since >= min(2 ** (1 + history.flat - config.patience), config.every):
        return TrainingDecision(True, f"{since} steps since the last session")
    if history.drift >= config.drift:
        return TrainingDecision(True, f"the target has moved by {history.drift:.2%}")
    if fell:
        return TrainingDecision(True, f"acceptance fell from {history.best:.0%} to {history.newest:.0%}")
    return TrainingDecision(False, f"acceptance is flat, and so were {history.flat} sessions")


def _fell(history: TrainingHistory, config: TriggerConfig) -> bool:
    chance = ERRORS * hypot(history.best_error, history.newest_error)
    return history.newest is not None and history.newest < (history.best or 0.0) * (1 - config.acceptance_drop) - chance


def rolled_out(history: TrainingHistory, drafted: int, accepted: int) -> TrainingHistory:
    """A rollout verified ``drafted`` first draft tokens of the learned drafter and accepted ``accepted``."""
    if drafted < LEAST_DRAFTED:
        return history
    rate = accepted / drafted
    error = sqrt(rate * (1 - rate) / drafted)
    best = (rate, error) if history.best is None or rate >= history.best else (history.best, history.best_error)
    return replace(history, newest=rate, newest_error=error, best=best[0], best_error=best[1])


def moved(history: TrainingHistory, drift: float) -> TrainingHistory:
    """The target is ``drift`` away from where it was at the last session (see ``engine.cluster.spot_training.weight_drift``)."""
    return replace(history, drift=drift)


def trained(history: TrainingHistory, step: int, gain: float, microsteps: int, config: TriggerConfig) -> TrainingHistory:
    """A session in the tail of ``step``'s rollout raised held-out acceptance by ``gain``. Later rollouts are compared with that one."""
    flat = 0 if gain >= config.least_gain else history.flat + (microsteps >= LEAST_MICROSTEPS)
    return TrainingHistory(step, flat, best=history.newest, best_error=history.newest_error)
