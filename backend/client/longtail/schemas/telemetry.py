"""What a run reports."""

from typing import Literal, NamedTuple

from pydantic import Field

from longtail.schemas.base import Items, Schema

RIGHT = 1.0
"""The reward of a response that counts as right."""
SEARCHED_SAMPLES = 10_000
"""The latest responses of a run, among which those of an outcome, with a text, to a prompt, or the longest are looked for; of one step all
are."""
Outcome = Literal["right", "wrong", "truncated"]
Level = Literal["info", "warning", "error", "alarm"]


class Series(Schema):
    """Values by RL step, steps rising. A value that is not finite is null.

    Of a long series they are buckets of ``width`` steps: the first step that each has a point for, and the mean, least (``low``) and
    greatest (``high``) value in it. A short one comes whole: its ``width`` is 1, ``low`` and ``high`` are empty.
    """

    steps: list[int] = Field(default_factory=list)
    values: list[float | None] = Field(default_factory=list)
    low: list[float | None] = Field(default_factory=list)
    high: list[float | None] = Field(default_factory=list)
    width: int = 1


class Metrics(Schema):
    series: dict[str, Series]


class MetricKey(Schema):
    """A series: ``points`` from ``first_step`` to ``last_step``, and its latest value."""

    key: str
    first_step: int
    last_step: int
    value: float | None
    points: int


class Lengths(Schema):
    """Response lengths of one step in tokens; percentiles are of the nearest rank. ``rewards`` are of the same responses, group by group;
    null: not told."""

    step: int
    lengths: list[int]
    rewards: list[float] | None = None
    truncated: int
    p50: int
    p75: int
    p90: int
    max: int


class WorkerSpan(Schema):
    """What a worker did from ``start`` to ``end``, in seconds since the epoch."""

    step: int
    worker: int
    state: Literal["BUSY", "IDLE", "TRAINING", "INFERENCE", "UPDATE", "EVALUATION"]
    start: float
    end: float


class Decoding(Schema):
    """How a worker decoded in a step. ``points`` are (time, running, strategy): from so many seconds after ``start`` (since the epoch) on
    so many requests ran, drafted for with that strategy ("off": plain decoding; "mixed", of earlier versions: each its own). The last has
    none running.

    ``marks`` are (time, what, number), times as above: what was done about the tail. "longest_first": the share is in that order, by
    predictions of so many tokens in all; "carried": so many responses are gone on with that an earlier step began; "stopped": so many were
    ended as they were, since enough groups were complete. Null where that was not told.
    """

    step: int
    worker: int
    start: float
    points: list[tuple[float, int, str]]
    marks: list[tuple[float, Literal["longest_first", "carried", "stopped"], int]] | None = None


class Arm(Schema):
    """Use of one strategy in one batch-size bucket during a step."""

    bucket: int
    strategy: str
    pulls: int
    requests: int
    accepted: int
    seconds: float


class SpeculationStep(Schema):
    """``accepted_by_position[i]`` of ``drafted_by_position[i]`` drafted tokens were accepted at depth i. ``ngram_*`` are the part of these
    that n-grams drafted, null where that is not known; the rest is the learned drafter's.

    ``untrained``: why no idle worker trained the drafter in the step's tail; null if one did.
    """

    step: int
    arms: list[Arm]
    drafted_by_position: list[int]
    accepted_by_position: list[int]
    ngram_drafted_by_position: list[int] | None = None
    ngram_accepted_by_position: list[int] | None = None
    untrained: str | None = None


class DrafterSession(Schema):
    """One spot-training session of the drafter: it before and after, in shares of [0, 1] on responses that are never trained on.

    ``held_out_*``: of the drafts of chains of 4, those that are expected to be accepted, and ``noise`` the standard error of what the
    session gained by that: only a gain beyond it is published. ``top1_*`` and ``top3_*``: of the positions,
    those where the target's most likely token is the drafter's, or among its three most likely; null where that was not measured.
    """

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
    noise: float | None = None
    top1_before: float | None = None
    top1_after: float | None = None
    top3_before: float | None = None
    top3_after: float | None = None


class PretrainingRound(Schema):
    """A round of training the drafter before the first step, on what the target wrote for that; ``time`` is when it ended.

    ``seconds`` of about ``limit`` are over, all attempts together; it ends at ``end`` seconds as it looks now, and ``done`` says that
    this was the last round. ``responses`` and ``response_tokens``: written so far. ``microsteps``, ``tokens`` (trained on) and ``loss`` are
    the round's. ``held_out``, ``top1`` and ``top3`` are as of DrafterSession, on responses that are never trained on; ``accept_length``,
    the target's own token included, is what chains of 4 can bring by that, at most, at temperature 1. ``vocabulary``: of how many tokens
    it drafts.
    """

    round: int
    time: float
    seconds: float
    limit: float
    end: float
    done: bool
    responses: int
    response_tokens: int
    microsteps: int
    tokens: int
    loss: float | None
    held_out: float | None
    top1: float | None
    top3: float | None
    accept_length: float | None
    vocabulary: int
    drafter_version: int

    @property
    def share_done(self) -> float:
        """Of its time."""
        return 1.0 if self.done or self.end <= 0 else min(1.0, self.seconds / self.end)

    @property
    def seconds_left(self) -> float:
        return 0.0 if self.done else max(0.0, self.end - self.seconds)


class PretrainingRounds(Items[PretrainingRound]):
    """``next_since_round``, as ``since_round``, asks for what comes after them; null: that was all."""

    next_since_round: int | None = None


class Piece(NamedTuple):
    """A run of a response's tokens that ``source`` made, and the characters of its text that they are. A drafter's are those that the
    target accepted; "target" is plain decoding, or the target's own token after them."""

    source: Literal["target", "eagle", "ngram", "unknown"]
    tokens: int
    characters: int


class SampleItem(Schema):
    """``pieces`` are the response from its beginning to its end; null where the engine does not tell what made its tokens.

    ``prompt_number``: the place of its prompt in the step; ``group_rewards``: those of all responses to that prompt. ``advantage``: null
    also where nothing was learned from it. ``truncated``: it stopped at the length limit. null: not told.
    """

    step: int
    prompt: str
    response: str
    reward: float | None
    pieces: list[Piece] | None = None
    prompt_number: int | None = None
    group_rewards: list[float] | None = None
    advantage: float | None = None
    tokens: int | None = None
    truncated: bool | None = None

    @property
    def is_right(self) -> bool:
        return self.reward is not None and self.reward >= RIGHT


class LogLine(Schema):
    """A line for people; ``id`` rises and is the cursor of ``since``. Level alarm: look at it, the run goes on."""

    id: int
    time: float
    level: Level
    step: int | None
    code: str
    message: str
