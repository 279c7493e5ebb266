"""What the REST API takes and gives. Light to import: the client, the CLI and the dashboard live on it."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AliasChoices, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, computed_field

T = TypeVar("T")


def _iso(value: Any) -> Any:
    """Numbers, also as text, are not taken for seconds since the epoch: the document says date-time."""
    if not isinstance(value, datetime) and not (isinstance(value, str) and "T" in value.upper()):
        raise ValueError("not a date and time such as 2026-01-31T08:00:00Z")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("not a number")
    return value


RunState = Literal["queued", "starting", "running", "paused", "succeeded", "failed", "cancelled"]
Action = Literal["cancel", "pause", "resume", "retry", "clone", "delete"]
Tag = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
Label = Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9][a-z0-9._:-]*$")]
Moment = Annotated[AwareDatetime, BeforeValidator(_iso)]
Priority = Annotated[int, Field(ge=-100, le=100, description="Higher goes first; waiting raises it"), BeforeValidator(_number)]
TERMINAL_STATES: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})
UNFINISHED_STATES: frozenset[str] = frozenset({"queued", "starting", "running", "paused"})
POSSIBLE_IN: dict[Action, frozenset[str]] = {
    "pause": UNFINISHED_STATES - {"paused"},
    "resume": frozenset({"paused"}),
    "cancel": UNFINISHED_STATES,
    "retry": frozenset({"failed", "cancelled"}),
    "clone": UNFINISHED_STATES | TERMINAL_STATES,
    "delete": TERMINAL_STATES,
}


def possible(state: str, cancelling: bool, pausing: bool) -> list[Action]:
    """What can be done with a run."""
    actions = [action for action, states in POSSIBLE_IN.items() if state in states]
    if cancelling and state not in TERMINAL_STATES:
        return ["clone"]
    return [action if action != "pause" else "resume" for action in actions] if pausing else actions


class Schema(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Items(Schema, Generic[T]):
    items: list[T]


class FieldError(Schema):
    """One fault: the dotted field of the configuration (or the parameter) and what is wrong with it."""

    field: str
    message: str


class Problem(Schema):
    """RFC 9457 problem details: the one shape of every error."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []


class Submission(BaseModel):
    """A run to accept. ``config`` is a RunConfig (GET /api/v1/schema); keys that are left out take their defaults."""

    model_config = ConfigDict(extra="forbid")

    config: dict[str, Any]
    tags: list[Tag] = Field(default_factory=list, max_length=32)
    priority: Priority = 0
    needs: Label | None = Field(None, description="Label of the workers that may carry it; null: any")
    start_after: Moment | None = Field(None, description="Not before this time")


class Copy(BaseModel):
    """A run made from another. What is left out is as in that one; ``config`` names only the fields that differ."""

    model_config = ConfigDict(extra="forbid")

    config: dict[str, Any] = {}
    tags: list[Tag] | None = Field(None, max_length=32)
    priority: Priority | None = None
    needs: Label | None = None
    start_after: Moment | None = None


class ConfigCheck(BaseModel):
    """A configuration to check without submitting it."""

    model_config = ConfigDict(extra="forbid")

    config: dict[str, Any]


class Validation(Schema):
    valid: bool
    errors: list[FieldError]


class Preset(Schema):
    name: str
    title: str
    description: str
    config: dict[str, Any]


class Run(Schema):
    """``step`` counts finished RL steps of ``steps``; ``attempt`` is 0 until a worker takes the run.

    ``needs`` is the worker label it waits for, empty for any. ``parent_id`` is the run that it was made from, and ``resumed_step`` the
    step of that one after whose checkpoint it goes on. ``actions`` says what can be done with it now.

    ``summary`` holds the latest step's metrics, with ``step_seconds``, ``rollout_share`` and ``harvest`` (trained / idle seconds).
    """

    id: str
    name: str
    state: RunState
    config: dict[str, Any]
    seed: int
    tags: list[str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    step: int
    steps: int
    attempt: int
    cancel_requested: bool
    pause_requested: bool = False
    owner: str | None = None
    priority: int = 0
    needs: str = ""
    start_after: datetime | None = None
    parent_id: str | None = None
    resumed_step: int | None = None
    deleted_at: datetime | None = None
    error: str | None
    error_code: str | None
    summary: dict[str, float | None]

    @property
    def finished(self) -> bool:
        return self.state in TERMINAL_STATES

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def actions(self) -> list[Action]:
        return possible(self.state, self.cancel_requested, self.pause_requested)

    @property
    def doing(self) -> str:
        """The state, or what it is about to become."""
        if self.state == "queued" or self.finished:
            return self.state
        wish = "cancelling" if self.cancel_requested else "pausing" if self.pause_requested else ""
        return wish or self.state


class RunPage(Schema):
    items: list[Run]
    next_cursor: str | None


class Series(Schema):
    """Values by RL step, steps rising. A value that is not finite is null."""

    steps: list[int] = []
    values: list[float | None] = []


class Metrics(Schema):
    series: dict[str, Series]


class Lengths(Schema):
    """Response lengths of one step in tokens; percentiles are of the nearest rank."""

    step: int
    lengths: list[int]
    truncated: int
    p50: int
    p75: int
    p90: int
    max: int


class Span(Schema):
    """What a worker did from ``start`` to ``end``, in seconds since the epoch."""

    step: int
    worker: int
    state: Literal["BUSY", "IDLE", "TRAINING", "UPDATE"]
    start: float
    end: float


class Arm(Schema):
    """Use of one strategy in one batch-size bucket during a step."""

    bucket: int
    strategy: str
    pulls: int
    requests: int
    accepted: int
    seconds: float


class SpeculationStep(Schema):
    """``untrained``: why no idle worker trained the drafter in the step's tail; null if one did."""

    step: int
    arms: list[Arm]
    drafted_by_position: list[int]
    accepted_by_position: list[int]
    untrained: str | None = None


class DrafterSession(Schema):
    """One spot-training session of the drafter."""

    step: int
    time: float
    drafter_version: int
    published: bool
    reason: str
    microsteps: int
    tokens: int
    loss: float | None
    held_out_before: float | None
    held_out_after: float | None
    mix_distance: float | None = None


class SampleItem(Schema):
    step: int
    prompt: str
    response: str
    reward: float | None


class LogLine(Schema):
    """A line for people; ``id`` rises and is the cursor of ``since``. Level alarm: look at it, the run goes on."""

    id: int
    time: float
    level: Literal["info", "warning", "error", "alarm"]
    step: int | None
    code: str
    message: str


class Artifact(Schema):
    id: str
    run_id: str
    name: str
    type: str
    bytes: int
    sha256: str
    metadata: dict[str, str] = Field(validation_alias=AliasChoices("details", "metadata"))
    created_at: datetime


class ComparedRun(Schema):
    """One run against the baseline, over the ``steps`` steps that both have.

    ``rollout_share`` is this run's own; a speed-up is the baseline's seconds over this run's. ``reward_first`` and ``reward_last``
    are means over the first and the last quarter of those steps, ``accept_length`` over the last quarter, ``harvest`` is trained
    over idle worker seconds. null: not measured.
    """

    run: Run
    steps: int
    seconds_per_step: float | None
    rollout_share: float | None
    rollout_speedup: float | None
    e2e_speedup: float | None
    reward_first: float | None
    reward_last: float | None
    reward: Series
    accept_length: float | None
    harvest: float | None


class ConfigDifference(Schema):
    """A dotted field that is not the same in all runs, and its value by run id (null where a run lacks it)."""

    field: str
    values: dict[str, Any]


class Comparison(Schema):
    """``items``: the baseline first, then the other runs in the order asked for."""

    baseline: str
    items: list[ComparedRun]
    config_diff: list[ConfigDifference]


class Health(Schema):
    status: Literal["ok"] = "ok"


class Readiness(Schema):
    status: Literal["ready"] = "ready"
    checks: dict[str, str]
