"""Events of steps with the times that a test gives them."""

from engine.events import StepFinished


def step(
    index: int, seconds: float, *, end: float = 0.0, trained: float = 0.0, accept_length: float = 1.0, **phases: float
) -> StepFinished:
    """Step ``index``; ``end`` is when it was over, and phases that are not given took no time."""
    return StepFinished(
        step=index,
        time=end,
        seconds=seconds,
        phases={"rollout": 0.0, "inference": 0.0, "update": 0.0} | phases,
        metrics={"idle_seconds": trained, "trained_seconds": trained, "accept_length": accept_length, "reward_mean": 0.5, "kl": 0.1},
    )
