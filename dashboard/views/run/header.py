"""Top of the run page: name, state, progress, and what to do with the run."""

from datetime import UTC, datetime
from statistics import median

import streamlit as st

from dashboard import page_files
from dashboard.analysis.advice import where_failed
from dashboard.analysis.run_config import run_kind, seed, speculates
from dashboard.analysis.series import finite
from dashboard.analysis.start_of_run import SimilarRun, beginning, is_beginning, pretraining_left
from dashboard.data.similar_runs import conditions, similar_run
from dashboard.text.escaping import escaped
from dashboard.text.formats import ago, count, duration, number, ratio, short
from dashboard.views.run.action_buttons import action_buttons
from dashboard.views.run.record import record
from dashboard.widgets.page_switch import go_from
from dashboard.widgets.panel import STATE_COLORS
from longtail.schemas.runs import BEFORE_STEPS, Run
from longtail.schemas.telemetry import Series

PACE_STEPS, LONGEST_PARTNER = 10, 24
LONG_REASON, TALLEST_REASON = 2000, 400
"""Characters from which on the reason of a failure scrolls, and how high it is then, in pixels."""


def heading(run: Run, partner: Run | None) -> bool:
    """Name and actions; True if the page is to follow the run."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(escaped(run.name), anchor=False, width="content")
        st.badge(run_kind(run), color="violet" if run_kind(run) == "TLT" else "gray")
        for tag in run.tags:
            st.badge(escaped(tag), color="gray")
        st.space("stretch")
        if partner is not None:
            _comparison(run, partner)
        live = not run.finished and st.toggle("Live", True, key=f"live-{run.id}", help="Off: the charts hold still, to zoom in and read.")
        if run.kind == "engine" and run.steps:
            st.page_link(page_files.PLANNER, label="Plan this run", query_params={"from": run.id})
        action_buttons(run)
    started = f" · started {ago(run.started_at, datetime.now(UTC))}" if run.started_at else ""
    attempts = f" · attempt {run.attempt}" if run.attempt > 1 else ""
    drafter = f" · begins with the drafter of artifact `{run.drafter_id}`" if run.drafter_id else ""
    seeded = f" · seed {known}" if (known := seed(run)) is not None else ""
    st.caption(f"`{run.id}`{seeded} · created {run.created_at:%Y-%m-%d %H:%M:%S} UTC{started}{attempts}{_origin(run)}{drafter}")
    record(run)
    return live


def _comparison(run: Run, partner: Run) -> None:
    label, pair = f"Compare with {escaped(short(partner.name, LONGEST_PARTNER))}", (run, partner)
    first, second = pair if speculates(partner.config) else reversed(pair)
    leads_to = page_files.RUN, page_files.COMPARE, {"runs": f"{first.id},{second.id}"}
    st.button(label, help=escaped(partner.name), key="compare-with", on_click=go_from, args=leads_to)


def _origin(run: Run) -> str:
    if run.parent_id is None:
        return ""
    after = f" after its step {run.resumed_step}" if run.resumed_step is not None else ""
    if run.resumed_step == BEFORE_STEPS:
        after = ", and goes on with pretraining its drafter"
    return f" · made from `{run.parent_id}`{after}"


def failure(run: Run) -> None:
    if run.state == "failed":
        st.error(f"**This run failed** ({escaped(run.error_code or 'error')}) {where_failed(run)}.", icon="⚠️")
        reason = (run.error or "").strip() or "no reason was recorded"
        with st.container(border=True, height=TALLEST_REASON if len(reason) > LONG_REASON else "content"):
            st.text(reason)  # as code, the browser would first read what colours 300 languages


def progress(run: Run, seconds: Series, speedup: float | None) -> None:
    """State, step k of N, pace and time left; how many times as fast as its plain run, where there is one."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(run.doing, color=STATE_COLORS[run.state])
        if speedup is not None:
            st.badge(f"{ratio(speedup)} as fast as plain", color="green" if speedup >= 1 else "orange")
        steps = f"step {_step(run)} · {pace(run, seconds, datetime.now(UTC))}"
        st.progress(run.share_done, text=pretraining_told(run) if run.pretrains else steps)


def _similar(run: Run) -> SimilarRun | None:
    """To tell by how long a run is going to take that has not done a step."""
    begun = run.state in ("starting", "running") and not run.trains_drafter_only
    return similar_run(conditions(run.config)) if begun else None


def pretraining_told(run: Run) -> str:
    latest, at, now = run.pretraining, run.starting_up, datetime.now(UTC)
    if latest is None or run.state != "running" or (at and not at.pretrains):
        done = f"round **{latest.round}**" if latest else "drafter"
        return f"{done} · {pace(run, Series(), now)}"
    then = f", then {count(run.steps, 'step')}" if run.steps else ""
    return f"drafter: round **{latest.round}** · {duration(run.seconds_pretrained(now))} · {pretraining_left(run, now)}{then}"


def _step(run: Run) -> str:
    return f"**{run.step}** of {run.steps}" if run.steps else f"**{run.step}**"


def pace(run: Run, seconds: Series, now: datetime) -> str:
    """As Markdown: how long it took, or what it is at while it does no steps, or how fast it goes and what is left, from ``step_seconds``
    by step."""
    recent = [value for _, value in finite(seconds)][-PACE_STEPS:]
    if run.finished:
        whole = (run.finished_at - run.started_at).total_seconds() if run.finished_at and run.started_at else None
        return f"took {duration(whole)}" if whole else "never started"
    if run.kind == "tracked":
        return "told of by its script"
    if not recent:
        return beginning(run, _similar(run), now)
    if is_beginning(run):
        return beginning(run, None, now, median(recent))
    left = (run.steps - run.step) * median(recent)
    rate = run.summary.get("tokens_per_second")
    speed = f" · {number(rate, 0)} tokens/s in rollout" if rate else ""
    return f"{duration(median(recent))} a step{speed} · about {duration(left)} left"
