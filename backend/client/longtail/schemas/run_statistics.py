"""What all steps of a run come to: the numbers that a page states of it."""

from longtail.schemas.base import Schema


class RewardTrend(Schema):
    """Mean reward of the ``steps`` first and of as many last steps, a third of all, but 10,000 at most; ``error`` is the standard error of
    the difference."""

    steps: int
    first: float
    last: float
    error: float


class SavedSeconds(Schema):
    """By how many seconds the run is shorter for what drafted, over the ``steps`` that tell: against plain decoding, against n-gram drafts
    at most, and against the learned drafter as it was before the first step. From the last alone is taken what training took
    (training_cost_seconds). Less than 0: by so many it is longer. ``decoding`` took so long in these steps. See
    ``engine.telemetry.decode_savings``: what is told is an estimate, from measured step times and acceptance."""

    steps: int
    decoding: float
    drafts: float
    learned_drafter: float
    training: float


class RunStatistics(Schema):
    """Over every step that is done, however long the run is; null: not measured.

    ``steps`` are those with a duration, ``step_seconds`` their mean, and ``rewarded_steps`` those with a reward. ``reward`` is the mean
    over the latest ten steps and ``reward_spread`` the standard deviation of these; ``reward_trend`` is null before the fourth step.
    ``accept_length``: mean over the latest ``accept_steps`` steps, five at most. ``tail``: the longest response over the median one, mean
    over the latest ``tail_steps`` steps, 500 at most. ``idle_seconds`` and ``trained_seconds`` are sums. ``published``: drafter versions
    that training in idle time has brought. ``startup_seconds``: from the start of the run to that of its first step, null of a
    retry that has this step from another run. ``saved`` is null where nobody measured what a decode step costs: without the tuner goodput,
    with SGLang, and in plain runs.
    """

    steps: int
    step_seconds: float | None
    rewarded_steps: int
    reward: float | None
    reward_spread: float | None
    reward_trend: RewardTrend | None
    accept_length: float | None
    accept_steps: int
    tail: float | None
    tail_steps: int
    idle_seconds: float | None
    trained_seconds: float | None
    published: int
    startup_seconds: float | None
    saved: SavedSeconds | None = None
