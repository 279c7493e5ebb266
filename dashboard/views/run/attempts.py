"""The attempts at a run: how each ended, where it ran, and from what code."""

from collections.abc import Sequence

import streamlit as st

from dashboard.text.escaping import escaped
from dashboard.text.formats import MISSING, duration, size
from dashboard.widgets.panel import panel
from longtail.schemas.attempts import Attempt, Environment, GitState
from longtail.schemas.runs import Run

SHORT = 12


def attempts(run: Run, found: Sequence[Attempt]) -> None:
    """The latest first, and open."""
    with panel("Environment", "Of each attempt: the worker, its machine, and the packages and variables that its Python had."):
        st.caption(f"Submitted from {_git(run.source)}")
        if not found:
            st.caption("No worker has taken this run yet.")
        for attempt in reversed(found):
            with st.expander(f"Attempt {attempt.number}: {attempt.state}", expanded=attempt.number == found[-1].number):
                _attempt(attempt)


def _attempt(attempt: Attempt) -> None:
    took = (attempt.finished_at - attempt.started_at).total_seconds() if attempt.finished_at else None
    ended = f"took {duration(took)}, exit code {MISSING if attempt.exit_code is None else attempt.exit_code}" if took else "still runs"
    st.caption(f"Started {attempt.started_at:%Y-%m-%d %H:%M:%S} UTC by worker `{attempt.worker_id}`, {ended}")
    if attempt.error:
        st.code(attempt.error, language=None, wrap_lines=True)
    if attempt.environment is None:
        st.caption("What it ran in was not recorded.")
        return
    _environment(attempt.environment, attempt.gpus)


def _environment(found: Environment, own: Sequence[str]) -> None:
    gpus = ", ".join(f"{gpu.name} ({size(gpu.memory_bytes)}, driver {gpu.driver})" for gpu in found.gpus)
    if own:
        gpus = f"{', '.join(own)} of its machine, for itself: {gpus or 'nvidia-smi tells nothing of them'}"
    facts = {
        "Longtail": _git(found.longtail) if found.longtail else "installed, not from a git checkout",
        "Python": escaped(found.python),
        "System": escaped(found.platform),
        "Machine": escaped(f"{found.host}: {found.cpu}, {found.cores} cores, {size(found.memory_bytes)} memory"),
        "GPUs": escaped(gpus) or "none",
        "Rollout engine": escaped(found.rollout_engine) if found.rollout_engine else MISSING,
    }
    st.table({"": list(facts), "of this attempt": list(facts.values())}, border="horizontal", hide_index=True)
    left, right = st.columns(2)
    left.dataframe({"package": list(found.packages), "version": list(found.packages.values())}, hide_index=True)
    right.dataframe({"variable": list(found.variables), "value": list(found.variables.values())}, hide_index=True)


def _git(source: GitState | None) -> str:
    if source is None:
        return "a folder that is no git checkout, or it was not told"
    branch = f" on {escaped(source.branch)}" if source.branch else ""
    return f"commit `{source.commit[:SHORT]}`{branch}" + (", with changes that are not committed" if source.dirty else "")
