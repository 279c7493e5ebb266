"""What a list shows of a run beside the run itself."""

from longtail.schemas.base import Schema


class RunOverview(Schema):
    """``reward``: its course, as means over equal spans of steps. ``step_seconds``: the mean of the latest ten steps.

    ``partner_id`` is the newest run of the project with at least one step and the same configuration but for its name and for speculation
    being on or off; ``awaited_id`` is the newest such run that is yet to do its first step. ``speedup`` is how many times as fast the
    speculating one of the run and its partner is, over the steps that both have. null: unknown.
    """

    run_id: str
    reward: list[float | None]
    step_seconds: float | None
    partner_id: str | None
    awaited_id: str | None = None
    speedup: float | None
