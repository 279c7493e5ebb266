"""What to do about what a run's figures show: pure functions with named thresholds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dashboard.analysis.machine_metrics import by_kind
from dashboard.analysis.series import finite
from dashboard.analysis.step_phases import PHASES
from dashboard.text.formats import number, percent, ratio, short
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import Lengths, LogLine, Series, SpeculationStep

RECENT = 10
"""Steps that the figures are means of."""
LOW_ROLLOUT_SHARE = 0.4
HIGH_IDLE_SHARE, LOW_HARVEST, WORTH_HARVESTING = 0.3, 0.25, 0.1
HIGH_TRUNCATED_SHARE = 0.1
LOW_REWARD, HIGH_REWARD = 0.02, 0.95
LOW_ACCEPT_LENGTH = 1.3
HIGH_LOGPROB_GAP = 0.05
HIGH_CLIP_SHARE = 0.2
COLLAPSED_ENTROPY = 0.2
FULL_MEMORY_PERCENT = 90
LONGEST_REASON = 300
INTENDED = ("acceptance is flat", "training costs")
"""Begin the reasons why nobody trained where more training would not help."""


@dataclass(frozen=True)
class Advice:
    """What is ``seen``, and what to ``do`` about it."""

    seen: str
    do: str


@dataclass(frozen=True)
class RecentSteps:
    """What the latest steps were like; None is not measured. Shares are of a step's time (``phases``), of the workers' time in rollout
    (``idle``), of that (``harvest``), of the responses (``truncated``) and of the start (``entropy``)."""

    speculates: bool = True
    phases: Mapping[str, float] | None = None
    idle: float | None = None
    harvest: float | None = None
    untrained: str | None = None
    truncated: float | None = None
    reward: float | None = None
    accept_length: float | None = None
    logprob_gap: float | None = None
    clip_share: float | None = None
    entropy: float | None = None
    fullest: tuple[str, float] | None = None


def recent_steps(
    speculates: bool,
    workers: int,
    metrics: Mapping[str, Series],
    lengths: Sequence[Lengths],
    speculation: Sequence[SpeculationStep],
    first_entropy: float | None = None,
) -> RecentSteps:
    """Of a run with so many workers, from what it has reported of its latest steps, and its entropy at the start. Shares are of the same
    steps: a phase that not every step has, such as evaluation, took nothing in the others."""
    known = {key: dict(finite(series)) for key, series in metrics.items()}
    recent = {key: fmean([*values.values()][-RECENT:]) for key, values in known.items() if values}
    steps = sorted(known.get("step_seconds", {}))[-RECENT:]
    total = {key: sum(values.get(step, 0.0) for step in steps) for key, values in known.items() if not values.keys().isdisjoint(steps)}
    whole, rollout, idle = (total.get(key) for key in ("step_seconds", "phase/rollout", "idle_seconds"))
    reasons = Counter(item.untrained for item in speculation[-RECENT:] if item.untrained)
    responses = [item for item in lengths[-RECENT:] if item.lengths]
    memory = {host: max(values) for host, series in by_kind(metrics).get("memory_percent", {}).items() if (values := _last(series))}
    return RecentSteps(
        speculates=speculates,
        phases={name: total.get(f"phase/{name}", 0.0) / whole for name in PHASES} if whole and rollout else None,
        idle=idle / (workers * rollout) if idle is not None and rollout else None,
        harvest=total.get("trained_seconds", 0.0) / idle if idle else None,
        untrained=reasons.most_common(1)[0][0] if reasons else None,
        truncated=sum(item.truncated for item in responses) / sum(len(item.lengths) for item in responses) if responses else None,
        reward=recent.get("reward_mean"),
        accept_length=recent.get("accept_length"),
        logprob_gap=recent.get("logprob_gap"),
        clip_share=recent.get("clip_share"),
        entropy=recent["entropy"] / first_entropy if first_entropy and "entropy" in recent else None,
        fullest=max(memory.items(), key=lambda item: item[1]) if memory else None,
    )


def _last(series: Series) -> list[float]:
    return [value for _, value in finite(series)][-RECENT:]


def advice(seen: RecentSteps) -> list[Advice]:
    return [*_about_speed(seen), *_about_learning(seen)]


def _about_speed(seen: RecentSteps) -> Iterator[Advice]:
    if seen.fullest is not None and seen.fullest[1] > FULL_MEMORY_PERCENT:
        yield Advice(
            f"The memory of {seen.fullest[0]} is {percent(seen.fullest[1] / 100)} full",
            "Lower rollout.max_batch or algorithm.tokens_per_microbatch before the system ends the run.",
        )
    if seen.phases is not None and (share := seen.phases["rollout"]) < LOW_ROLLOUT_SHARE:
        phase, other = max(((name, value) for name, value in seen.phases.items() if name != "rollout"), key=lambda item: item[1])
        yield Advice(
            f"Rollout is {percent(share)} of a step",
            f"Speculation cannot make a step more than {ratio(1 / (1 - share))} as fast: look at {phase}, {percent(other)} of it, first.",
        )
    if seen.idle is not None and seen.idle > HIGH_IDLE_SHARE:
        less = "More prompts a step for each worker (algorithm.prompts_per_step, cluster.workers) leave less to wait for."
        on = "Turn speculation on (speculation.enabled): it shortens the tail, and those who wait train the drafter."
        yield Advice(f"Workers wait for {percent(seen.idle)} of the rollout", less if seen.speculates else on)
    is_due = seen.speculates and (seen.idle or 0.0) >= WORTH_HARVESTING and not (seen.untrained or "").startswith(INTENDED)
    if is_due and seen.harvest is not None and seen.harvest < LOW_HARVEST:
        reason = f"Most often {seen.untrained}." if seen.untrained else "The tail is too short for a session of training."
        yield Advice(
            f"Only {percent(seen.harvest)} of the waiting trains the drafter",
            f"{reason} Longer tails come with longer responses (rollout.max_new_tokens) and more requests for each worker.",
        )
    if seen.speculates and seen.accept_length is not None and seen.accept_length < LOW_ACCEPT_LENGTH:
        yield Advice(
            f"A pass of the target yields {number(seen.accept_length)} tokens",
            "The drafter foresees little. See in the Drafter tab whether its training helps; drafter.spot sets how it is trained.",
        )


def _about_learning(seen: RecentSteps) -> Iterator[Advice]:
    if seen.truncated is not None and seen.truncated > HIGH_TRUNCATED_SHARE:
        yield Advice(
            f"{percent(seen.truncated)} of the responses are cut at the limit",
            "Raise rollout.max_new_tokens, unless they only repeat themselves: see the samples.",
        )
    if seen.reward is not None and not LOW_REWARD < seen.reward < HIGH_REWARD:
        hard = "Where all rewards of a group are equal it teaches nothing: take easier prompts, or a larger algorithm.group_size."
        easy = "There is little left to learn: take harder prompts, or stop here."
        yield Advice(f"The mean reward is {number(seen.reward)}", hard if seen.reward <= LOW_REWARD else easy)
    if seen.logprob_gap is not None and seen.logprob_gap > HIGH_LOGPROB_GAP:
        yield Advice(
            f"Engine and trainer differ by {number(seen.logprob_gap)} in the log-prob of a token",
            "What is learnt from was drawn by another law: keep algorithm.rollout_correction on, or set model.dtype to float32.",
        )
    if seen.clip_share is not None and seen.clip_share > HIGH_CLIP_SHARE:
        yield Advice(
            f"The update of {percent(seen.clip_share)} of the tokens is clipped",
            "The policy moves too far in a step: lower algorithm.learning_rate or algorithm.updates_per_step.",
        )
    if seen.entropy is not None and seen.entropy < COLLAPSED_ENTROPY:
        yield Advice(
            f"Entropy has fallen to {percent(seen.entropy)} of what it was",
            "Responses grow alike and little new is tried: lower algorithm.learning_rate, or raise algorithm.kl_coefficient.",
        )


def where_failed(run: Run) -> str:
    return "while its drafter was being trained" if run.pretrains else f"at step {run.step}" + (f" of {run.steps}" if run.steps else "")


def what_failed(run: Run) -> str:
    """Of a failed run: where it broke off, and the first line of the reason."""
    reason = ((run.error or "").strip() or "no reason was recorded").splitlines()[0]
    return f"The run failed {where_failed(run)} ({run.error_code or 'error'}): {short(reason, LONGEST_REASON)}"


def latest_alarms(lines: Sequence[LogLine]) -> list[tuple[LogLine, int]]:
    """The latest alarm of each code and how often there was one, the newest first."""
    counts = Counter(line.code for line in lines)
    latest = {line.code: line for line in lines}
    return sorted(((line, counts[code]) for code, line in latest.items()), key=lambda found: -found[0].id)


def how_often(line: LogLine, count: int, more: bool = False) -> str:
    """An alarm of which ``line`` is the latest, raised ``count`` times among the lines at hand; ``more``: there may be earlier ones."""
    times = "once" if count == 1 else f"{count:,} times"
    last = "" if line.step is None else f" at step {line.step}" if count == 1 and not more else f", last at step {line.step}"
    return f"{'at least ' if more else ''}{times}{last}"
