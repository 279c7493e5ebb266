"""What an engine tells of a run: each kind of event with its fields.

Times are seconds since the epoch; ``step`` counts RL steps from 0. ``seq`` rises by one per line of a file.
"""

import time
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
Source = Literal["target", "eagle", "ngram", "unknown"]
Handling = Literal["longest_first", "carried", "stopped"]


class Event(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    seq: int = -1
    time: float = Field(default_factory=time.time)
    version: int = SCHEMA


class StartingUp(Event):
    """What an attempt is at before it has done a step, told as it begins and in between. ``first_rollout``: ``done`` of ``total`` responses
    are there; of the other phases both are 0. Those that come before ``run_started`` are the first lines of an attempt.
    ``first_responses`` are those to pretrain the drafter on, and ``first_round`` is the attempt's first of that; it ends with the
    ``pretraining`` event of the round. Events of earlier versions tell of neither. ``device``: what the workers will be on, cuda or
    cpu, which is told once a cluster that the run joins has room for them."""

    kind: Literal["starting_up"] = "starting_up"
    phase: Literal["starting_workers", "measuring_costs", "first_responses", "first_round", "first_rollout"]
    done: int = 0
    total: int = 0
    device: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether the phase was told of before."""
        return self.done > 0 or self.device != ""


class RunStarted(Event):
    """An attempt's workers are there. ``first_step`` is above 0 after a resume. ``rollout_engine`` generates its responses, for that
    reason; events of earlier versions do not say."""

    kind: Literal["run_started"] = "run_started"
    first_step: int
    steps: int
    workers: int
    model_parameters: int
    device: str
    packages: dict[str, str]
    rollout_engine: str = ""
    engine_reason: str = ""


class StepFinished(Event):
    """One RL step: durations in seconds by phase (rollout, reward, inference, update, sync) and scalar metrics.

    Metrics: reward_mean, reward_std, prompt_tokens and response_tokens (means), tokens_per_second, accept_length (with the target's own
    token; 1.0 when plain), idle_seconds (of workers: in the rollout, neither generating nor inferring), trained_seconds (the part spent on
    the drafter), loss, kl, entropy, gradient_norm, clip_share, logprob_gap (mean |rollout - training log-prob|), learning_rate,
    drafter_version, target_drift (relative change of the target's weights since the drafter was last trained), sync_seconds and sync_bytes
    (of the target's weights into the engines: the slowest worker's time, checks included, and what all workers took), generated_tokens (of
    the rollout), preemptions (how often a response had to wait again, as the native engine's cache was full), worker/N/tokens_per_second
    (while worker N generates), skipped_updates (left out, as their gradient was not finite; where there are none it is missing); for what
    the responses teach see ``engine.telemetry.learning_signal``, for what decoding took and would have taken otherwise (decode_seconds)
    ``engine.telemetry.decode_savings``; and training_cost_seconds (that training the drafter took, where it was trained). What was not
    measured is left out: kl without algorithm.kl_coefficient, preemptions of SGLang, and what the update brings where there was none. With
    rollout.scheduling also forecast_correlation (of predicted and true lengths), stopped_responses, unused_tokens (generated, but not
    learned from in this step), carried_responses (those that the next step goes on with) and stale_share (of the learned tokens, those by
    older policies); of an asynchronous run staleness_mean and staleness_max (updates between the policy that wrote a token and the one that
    learns from it) and discarded_tokens (generated, but in no response: 0 unless something is wrong); of an evaluation eval/..., see
    ``engine.experience.evaluation``; of each machine system/HOST/..., see ``engine.telemetry.machine_usage``.
    """

    kind: Literal["step"] = "step"
    step: int
    seconds: float
    phases: dict[str, float]
    metrics: dict[str, float]


class WorkerSpan(Event):
    """What a worker did between ``start`` and ``end``. BUSY: generating; IDLE: done, waiting; TRAINING: training the drafter;
    INFERENCE: of responses that are there, while others generate; UPDATE: the rest of inference, policy update and sync;
    EVALUATION: generating for validation."""

    kind: Literal["worker_state"] = "worker_state"
    step: int
    worker: int
    state: Literal["BUSY", "IDLE", "TRAINING", "INFERENCE", "UPDATE", "EVALUATION"]
    start: float
    end: float


class Decoding(Event):
    """How a worker decoded in a step. ``points`` are (time, running, strategy): from so many seconds after ``start`` (since the epoch)
    on so many requests ran, drafted for with that strategy ("off": plain decoding; "mixed", of earlier versions: each its own). The last
    has none running.

    ``marks`` are (time, what, number), times as above: what ``rollout.scheduling`` did about the tail. "longest_first": the share is in
    that order, by predictions of so many tokens in all; "carried": so many responses are gone on with that an earlier step began;
    "stopped": so many were ended as they were, since enough groups were complete.
    """

    kind: Literal["decoding"] = "decoding"
    step: int
    worker: int
    start: float
    points: list[tuple[float, int, str]]
    marks: list[tuple[float, Handling, int]] = []


class RolloutFinished(Event):
    """Response lengths in tokens; ``truncated`` of them stopped at the length limit. ``rewards`` are of the same responses, group by group;
    None: not told, and then the lengths are in no particular order."""

    kind: Literal["rollout"] = "rollout"
    step: int
    lengths: list[int]
    truncated: int
    rewards: list[float] | None = None


class ArmStatistics(BaseModel):
    """Use of one strategy in one batch-size bucket during a step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bucket: int
    strategy: str
    pulls: int
    requests: int
    accepted: int
    seconds: float

    def plus(self, other: "ArmStatistics") -> "ArmStatistics":
        """The same arm's use by two workers together."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in ("pulls", "requests", "accepted", "seconds")}
        return self.model_copy(update=sums)


class Speculation(Event):
    """Speculation in one step. ``accepted_by_position[i]`` of ``drafted_by_position[i]`` drafted tokens were accepted at depth i.

    ``ngram_drafted_by_position`` and ``ngram_accepted_by_position`` are the part of these that n-grams drafted, None where that is not
    known; the rest is the learned drafter's. ``untrained``: why no idle worker trained the drafter in the step's tail; None if one did.
    """

    kind: Literal["speculation"] = "speculation"
    step: int
    arms: list[ArmStatistics]
    drafted_by_position: list[int]
    accepted_by_position: list[int]
    ngram_drafted_by_position: list[int] | None = None
    ngram_accepted_by_position: list[int] | None = None
    untrained: str | None = None


class DrafterTrained(Event):
    """One spot-training session: ``published`` tells whether ``drafter_version`` was loaded into the engines, and ``reason`` why.

    ``held_out_before`` and ``held_out_after`` are in [0, 1]: on recent responses that are never trained on, the share of
    the drafts of chains of 4 that can be expected to be accepted, at most, at temperature 1. ``mix_distance``, in [0, 1]: the total
    variation between the lengths of the responses trained on and those of a whole step; 0 is alike.
    ``noise``: the standard error of the difference of the two, over parts of these responses; only a gain beyond it is published.
    ``top1_*`` and ``top3_*``, in [0, 1], are on the same responses: the share of positions where the target's most likely token is the
    drafter's, or among its three most likely, given the target's own hidden states. None: not measured.
    """

    kind: Literal["drafter"] = "drafter"
    step: int
    drafter_version: int
    published: bool
    reason: str
    microsteps: int
    tokens: int
    loss: float
    held_out_before: float
    held_out_after: float
    mix_distance: float | None = None
    noise: float | None = None
    top1_before: float | None = None
    top1_after: float | None = None
    top3_before: float | None = None
    top3_after: float | None = None


class DrafterPretrained(Event):
    """One round of training the drafter before the first step, on what the target wrote for that.

    ``seconds`` of about ``limit`` are over, all attempts together; it ends at ``end`` seconds as it looks now, and ``done`` says that
    this was the last round. ``responses`` and ``response_tokens``: written so far, but for what was dropped before any training on it, for
    lack of memory. ``microsteps``, ``tokens`` (trained on) and ``loss`` are the round's, which has no loss without a micro-step.
    ``held_out``, ``top1`` and ``top3``: as of ``DrafterTrained``; ``accept_length``, the target's own token included, is what chains of 4
    can bring by ``held_out``: at most that at temperature 1. ``vocabulary``: how many tokens the drafter drafts from.
    """

    kind: Literal["pretraining"] = "pretraining"
    round: int
    seconds: float
    limit: float
    end: float
    done: bool
    responses: int
    response_tokens: int
    microsteps: int
    tokens: int
    loss: float | None
    held_out: float
    top1: float
    top3: float
    accept_length: float
    vocabulary: int
    drafter_version: int


class CheckpointSaved(Event):
    """``path`` is relative to the run folder; resuming continues with ``step`` + 1."""

    kind: Literal["checkpoint"] = "checkpoint"
    step: int
    path: str
    seconds: float


class ArtifactSaved(Event):
    """A file under the run folder that users can download."""

    kind: Literal["artifact"] = "artifact"
    name: str
    type: Literal["drafter", "policy"]
    path: str
    bytes: int
    sha256: str
    metadata: dict[str, str] = {}


class Piece(NamedTuple):
    """A run of a response's tokens that ``source`` made, and the characters of its text that they are. A drafter's are those that the
    target accepted; "target" is plain decoding, or the target's own token after them."""

    source: Source
    tokens: int
    characters: int


class Sample(Event):
    """``pieces`` are the response from its beginning to its end; None where the engine does not tell what made its tokens.

    ``prompt_number``: the place of its prompt in the step; ``group_rewards``: those of all responses to that prompt. ``advantage``: None
    where nothing was learned from it. ``truncated``: it stopped at the length limit. None: not told.
    """

    kind: Literal["sample"] = "sample"
    step: int
    prompt: str
    response: str
    reward: float
    pieces: list[Piece] | None = None
    prompt_number: int | None = None
    group_rewards: list[float] | None = None
    advantage: float | None = None
    tokens: int | None = None
    truncated: bool | None = None


class Alarm(Event):
    """Something that a user should look at; the run goes on."""

    kind: Literal["alarm"] = "alarm"
    step: int
    code: str
    message: str


class Log(Event):
    """A line for people. Level error with a ``code`` is the reason why an attempt failed."""

    kind: Literal["log"] = "log"
    level: Literal["info", "warning", "error"]
    message: str
    code: str = ""


class RunStopped(Event):
    """Last line of an attempt that was asked to stop: ``step`` is its last one and checkpointed, resuming goes on after it."""

    kind: Literal["run_stopped"] = "run_stopped"
    step: int


class RunFinished(Event):
    """Last line of an attempt that reached its end."""

    kind: Literal["run_finished"] = "run_finished"
    steps: int


AnyEvent = Annotated[
    StartingUp
    | RunStarted
    | StepFinished
    | WorkerSpan
    | Decoding
    | RolloutFinished
    | Speculation
    | DrafterTrained
    | DrafterPretrained
    | CheckpointSaved
    | ArtifactSaved
    | Sample
    | Alarm
    | Log
    | RunStopped
    | RunFinished,
    Field(discriminator="kind"),
]
