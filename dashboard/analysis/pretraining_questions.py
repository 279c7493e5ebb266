"""The first questions of who looks at a drafter being trained before the first step: how far is it, how good, and from what?"""

from collections.abc import Sequence
from datetime import datetime

from dashboard.analysis.run_config import section
from dashboard.analysis.run_questions import Answer
from dashboard.analysis.start_of_run import beginning, pretraining_left
from dashboard.text.formats import count, duration, number, percent
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import PretrainingRound

LOOK_AHEAD = 4


def how_far(run: Run, now: datetime) -> Answer:
    question, latest = "How far is the drafter?", run.pretraining
    if latest is None:
        at = beginning(run, None, now) if run.state in ("starting", "running") else f"the run is {run.state}"
        return _nothing(question, run, f": {at}")
    rounds = f"in {count(latest.round, 'round')}"
    if latest.done:
        early = "; it ended by itself, as nothing more was gained" if latest.seconds < 0.98 * latest.limit else ""
        return Answer(question, "Trained", f"{duration(latest.seconds)}, {rounds}{early}")
    spent = f"{duration(run.seconds_pretrained(now))} of about {duration(latest.end)}, {rounds}"
    if run.finished:
        return Answer(question, f"Broke off at {percent(latest.share_done)}", spent)
    left = pretraining_left(run, now)
    return Answer(question, f"{left[0].upper()}{left[1:]}", spent)


def _nothing(question: str, run: Run, at: str = "") -> Answer:
    """Before the first round is over, or where none ever was."""
    if run.finished:
        return Answer(question, "No round", "the run ended before its first round did")
    return Answer(question, "Not yet", f"no round has finished{at}")


def how_good(rounds: Sequence[PretrainingRound], run: Run) -> Answer:
    question, latest = "How good is it?", run.pretraining
    if latest is None:
        return _nothing(question, run)
    if latest.accept_length is None:
        return Answer(question, "Not known", "the latest round could not measure it")
    since = f", {number(rounds[0].accept_length)} after round {rounds[0].round}" if len(rounds) > 1 else ""
    detail = f"expected of chains of {LOOK_AHEAD} on responses held out{since}; top-1 {percent(latest.top1)}, top-3 {percent(latest.top3)}"
    return Answer(question, f"{number(latest.accept_length)} tokens a pass", detail)


def from_what(run: Run) -> Answer:
    question, latest = "From what?", run.pretraining
    if latest is None:
        return _nothing(question, run)
    given = section(run.config, "drafter").get("pretrain_responses")
    source = f"read from {given}" if given else "written by the model itself"
    detail = f"{latest.response_tokens:,} tokens, {source}; it drafts from {latest.vocabulary:,} different tokens"
    return Answer(question, count(latest.responses, "response"), detail)
