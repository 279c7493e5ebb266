"""Workers, and what each of them carries until when."""

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from dashboard import page_files
from dashboard.text.escaping import escaped
from dashboard.text.formats import SPACE, ago, duration, percent
from dashboard.widgets.cell_labels import row_headings
from dashboard.widgets.panel import STATE_COLORS, panel
from longtail.schemas.queue import Lease, Worker

WIDTHS = (3, 2.4, 1.2, 1.2, 1.6, 1.6, 1)
HEADINGS = ("Host", "Offers", "Runs", "GPUs", "Last seen", "Started", "")


def worker_table(items: Sequence[Worker]) -> None:
    """Those that are gone are put away."""
    alive, gone = ([worker for worker in items if worker.alive is living] for living in (True, False))
    with panel("Workers", "Each process carries so many runs at a time; its labels say which. A GPU goes to one at a time."):
        if all(worker.generated for worker in alive):
            st.warning("No worker is alive: queued runs wait. Start one with: python -m backend.jobs.worker", icon="⚠️")
        if alive:
            _table(alive, "rows-alive")
        if gone:
            with st.expander(f"{len(gone)} gone in the last day", key="gone"):
                _table(gone, "rows-gone")


def _table(items: Sequence[Worker], key: str) -> None:
    with st.container(key=key):
        row_headings(key, WIDTHS, HEADINGS)
        for worker in items:
            _row(worker, datetime.now(UTC))
            for lease in worker.leases:
                _lease(lease, datetime.now(UTC))
            if worker.hidden:
                st.caption(f"and {worker.hidden} of projects that you do not see")


def _row(worker: Worker, now: datetime) -> None:
    host, labels, runs, gpus, seen, started, state = st.columns(WIDTHS, vertical_alignment="center")
    host.text(f"{worker.host} ({worker.id[:6]})")
    with labels, st.container(horizontal=True, gap="xsmall"):
        for label in worker.labels:
            st.badge(escaped(label), color="gray")
    runs.text(f"{len(worker.leases) + worker.hidden} of {worker.slots}")
    gpus.text(f"{worker.gpus_taken} of {len(worker.gpus)}" if worker.gpus else "none")
    seen.text(f"{max(0, (now - worker.seen_at).total_seconds()):.0f}{SPACE}s ago" if worker.alive else ago(worker.seen_at, now))
    started.text(ago(worker.started_at, now))
    said = "gone" if not worker.alive else "demo data" if worker.generated else "alive"
    state.badge(said, color="green" if said == "alive" else "gray")


def _lease(lease: Lease, now: datetime) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.page_link(page_files.RUN, label=f"↳ {escaped(lease.run_name)}", icon="", query_params={"id": lease.run_id})
        st.badge(lease.state, color=STATE_COLORS[lease.state])
        st.caption(carried(lease, now))


def carried(lease: Lease, now: datetime) -> str:
    """How far the run is, on what, since when, and until when it is held."""
    progress = f"{lease.step} of {lease.steps} steps" if lease.steps else "trains a drafter"
    if lease.pretraining and not lease.pretraining.done:
        progress = f"drafter: {percent(lease.pretraining.share_done)}"
    on = f", on GPU {', '.join(lease.gpus)}" if lease.gpus else ""
    held = f", held for {duration((now - lease.claimed_at).total_seconds())}" if lease.claimed_at else ""
    return f"{progress}, attempt {lease.attempt}{on}{held}, {_until(lease, now)}"


def _until(lease: Lease, now: datetime) -> str:
    if lease.expires_at is None:
        return "no lease"
    left = (lease.expires_at - now).total_seconds()
    return f"lease for {duration(left)} more" if left > 0 else f"lease ended {duration(-left)} ago"
