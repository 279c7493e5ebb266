"""What a run will take."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from longtail.schemas.base import Body, Schema, number
from longtail.schemas.telemetry import Decoding, WorkerSpan

Amount = Annotated[float, BeforeValidator(number), Field(gt=0, lt=1e9)]


class PlanRequest(Body):
    """``gpus``: kind and number, such as h100:64 or cpu:2; the run has as many workers as they make. ``price``: dollars for a GPU-hour.
    ``run_id``: a run whose recorded lengths, acceptance and times are taken. With ``median`` or ``spread``, or without a run, lengths are
    log-normal. ``deadline``: hours, for which the cheapest machines are named. ``quick``: only what the arms take."""

    config: dict[str, Any]
    gpus: str = Field(min_length=1, max_length=100, pattern=r"^[\w.-]+(:\d{1,6})?$")
    price: Annotated[float, BeforeValidator(number), Field(ge=0, lt=1e9)] | None = None
    run_id: str | None = Field(None, max_length=64, pattern=r"^[0-9a-f]+$")
    median: Amount | None = None
    spread: Amount | None = None
    deadline: Amount | None = None
    quick: bool = False


class PlannedArm(Schema):
    """A way to run it: means of a step in seconds, and what the whole run takes. ``idle_share``: of workers' time in a rollout;
    ``unused_share``: of generated tokens, those that teach nothing. ``strategies``: what drafts, by running requests."""

    name: str
    step_seconds: float
    phases: dict[str, float]
    checkpoint: float
    hours: float
    dollars: float
    idle_share: float
    accept_length: float
    unused_share: float
    strategies: dict[int, str]


class Influence(Schema):
    """Seconds of a step with half, and with twice, of an input. Responses are no longer than the limit, whatever they are varied by."""

    input: str
    half: float
    twice: float


class BreakEven(Schema):
    """TLT pays ``pays`` (above, below) ``value``; if that is null, everywhere or nowhere from a 32nd to 32 times of what the input is."""

    input: str
    value: float | None
    pays: str


class Advice(Schema):
    """``changes`` of the configuration save ``saved`` seconds a step, a ``share`` of it; ``price``: what else they change."""

    changes: dict[str, Any]
    saved: float
    share: float
    price: str


class Offer(Schema):
    """Time and money on some machines, with TLT and plain."""

    machines: str
    gpus: int
    hours: float
    dollars: float
    plain_hours: float
    plain_dollars: float


class ComparedStep(Schema):
    """A recorded step beside the same one, planned."""

    step: int
    measured_s: float
    predicted_s: float
    measured_rollout_s: float
    predicted_rollout_s: float


class Plan(Schema):
    """``memory``: GB of the fullest GPU by phase; ``correction``: how much longer decoding takes than computed, by the recorded run.
    ``spans`` and ``decoding``: the first steps as configured, simulated."""

    machines: str
    workers: int
    steps: int
    dollars_per_hour: float
    lengths: str
    correction: float
    notes: list[str]
    memory: dict[str, float]
    arms: list[PlannedArm]
    influences: list[Influence]
    break_evens: list[BreakEven]
    advice: list[Advice]
    offers: list[Offer]
    recorded: list[ComparedStep]
    spans: list[WorkerSpan]
    decoding: list[Decoding]


class GpuKind(Schema):
    """A kind of GPU that runs can be planned on. Of one: ``memory`` in GB, ``bandwidth`` of it in TB/s, dense bfloat16 TFLOPS, ``link`` to
    others of its node and ``network`` in GB/s one way, and dollars for an hour. All are peaks, by ``source``."""

    name: str
    memory: float
    bandwidth: float
    flops: float
    link: float
    network: float
    gpus_per_node: int
    price: float
    source: str
