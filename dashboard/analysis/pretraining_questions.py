"""The first questions of who looks at a drafter being trained before the first step: how far is it, how good, and from what?"""

from collections.abc import Sequence

from dashboard.analysis.run_config import section
from dashboard.analysis.run_questions import Answer
from dashboard.text.formats import count, duration, number, percent
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import PretrainingRound

LOOK_AHEAD = 4


def how_far(run: Run) -> Answer:
    question, latest = "How far is the drafter?", run.pretraining
    if latest is None:
        return Answer(question, "Not yet", "no round has finished: the model writes its first responses")
    spent = f"{duration(latest.seconds)} of at most {duration(latest.limit)}, in {count(latest.round, 'round')}"
    if latest.done:
        early = "; it ended by itself, as nothing more was gained" if latest.seconds < 0.98 * latest.limit else ""
        return Answer(question, "Trained", f"{spent}{early}")
    if run.finished:
        return Answer(question, f"Broke off at {percent(latest.share_done)}", spent)
    return Answer(question, f"About {duration(latest.seconds_left)} left", spent)


def how_good(rounds: Sequence[PretrainingRound], latest: PretrainingRound | None) -> Answer:
    question = "How good is it?"
    if latest is None or latest.accept_length is None:
        return Answer(question, "Not yet", "no round has finished")
    since = f", {number(rounds[0].accept_length)} after round {rounds[0].round}" if len(rounds) > 1 else ""
    detail = f"expected of chains of {LOOK_AHEAD} on responses held out{since}; top-1 {percent(latest.top1)}, top-3 {percent(latest.top3)}"
    return Answer(question, f"{number(latest.accept_length)} tokens a pass", detail)


def from_what(run: Run) -> Answer:
    question, latest = "From what?", run.pretraining
    if latest is None:
        return Answer(question, "Not yet", "no round has finished")
    given = section(run.config, "drafter").get("pretrain_responses")
    source = f"read from {given}" if given else "written by the model itself"
    detail = f"{latest.response_tokens:,} tokens, {source}; it drafts from {latest.vocabulary:,} different tokens"
    return Answer(question, count(latest.responses, "response"), detail)
