"""What a configuration is going to cost: what its numbers say, and the time that a run like it took."""

from collections.abc import Sequence
from math import ceil

import streamlit as st

from dashboard.analysis.run_config import trains_drafter_only
from dashboard.analysis.start_of_run import SimilarRun
from dashboard.data.similar_runs import conditions, similar_run
from dashboard.text.escaping import escaped
from dashboard.text.formats import count, duration, short
from dashboard.views.new.schema_fields import Config

ROUND_SECONDS = 5.0
"""That the shortest round of training a drafter takes."""


def cost_estimate(config: Config) -> None:
    """``config`` has every field."""
    pretraining = pretraining_line(config)
    if trains_drafter_only(config):
        _show([pretraining])
        return
    lines = [*size_lines(config), *duration_lines(similar_run(conditions(config)), config["algorithm"]["steps"])]
    _show([pretraining, *lines] if pretraining else lines)


def size_lines(config: Config) -> list[str]:
    """How many responses, and how many tokens if all were as long as they may be. Of those that over-sampling begins, some are stopped,
    and those of a refill come where others teach nothing."""
    algorithm, rollout, evaluation = config["algorithm"], config["rollout"], config["evaluation"]
    limit, prompts, group = rollout["max_new_tokens"], algorithm["prompts_per_step"], algorithm["group_size"]
    begun = ceil(prompts * rollout["scheduling"]["over_sampling"]) * group * (1 + algorithm["refills"])
    of_more = f", of {'up to ' if algorithm['refills'] else ''}{begun:,} that are begun" if begun > prompts * group else ""
    lines = [f"**{count(prompts * group, 'response')} a step**{of_more}, {begun * limit:,} tokens at most"]
    if evaluation["every"]:
        responses = evaluation["prompts"] * evaluation["samples"]
        lines.append(f"and {count(responses, 'response')} in each evaluation, {responses * limit:,} tokens at most")
    return lines


def duration_lines(similar: SimilarRun | None, steps: int) -> list[str]:
    """How long so many steps take, by a run like it."""
    if similar is None:
        return ["How long it takes is not known: no finished run is like it."]
    startup = similar.startup_seconds
    began = ", without its start, which was not measured" if startup is None else f", and {duration(startup)} to begin" if startup else ""
    return [
        f"about **{duration((startup or 0.0) + similar.step_seconds * steps)}** for {count(steps, 'step')},",
        f"since {escaped(short(similar.run.name))} took {duration(similar.step_seconds)} a step{began}",
    ]


def pretraining_line(config: Config) -> str:
    """Empty without. No bound: it ends with a whole round, earlier where nothing more is gained, and there is time to train on the first
    responses however long these take."""
    drafter = config["drafter"]
    if not drafter["pretrain_minutes"]:
        return ""
    seconds = max(60 * drafter["pretrain_minutes"], ROUND_SECONDS)
    found = "; a drafter that is there already is trained further" if trains_drafter_only(config) else ", unless there is a drafter already"
    longer = ", or twice as long as its first responses take, if that is more"
    return f"about **{duration(seconds)}** to train the drafter{longer}{found if drafter['path'] == 'auto' else ''}"


def _show(lines: Sequence[str]) -> None:
    with st.container(border=True, key="costs"):
        st.markdown("  \n".join(["**What it costs**", *lines]))
