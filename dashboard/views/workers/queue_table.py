"""The queue: in which order runs are taken, why each still waits, and what can be changed about it."""

from datetime import UTC, datetime

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import client, me
from dashboard.text.escaping import escaped
from dashboard.text.formats import MISSING, count, duration
from dashboard.widgets.api_errors import explained
from dashboard.widgets.cell_labels import row_headings
from dashboard.widgets.panel import panel
from longtail.schemas.queue import Queue, QueuedRun

WIDTHS = (0.8, 3, 1.3, 1.3, 1.2, 2.7, 1.2, 1.5)
HEADINGS = ("Place", "Run", "Owner", "Needs", "Waits", "Why", "Priority", "")
LOWEST, HIGHEST = -100, 100


def queue_table(found: Queue) -> None:
    aging = duration(found.aging_seconds)
    help = f"An owner's runs go by priority, then by age; owners take turns. Waiting for {aging} is worth a point of priority."
    with panel("Queue", help):
        if not found.items:
            st.caption("Nothing waits." if not found.total else f"Out of your sight, {count(found.total, 'run')} of other projects.")
            return
        with st.container(key="rows-queue"):
            row_headings("rows-queue", WIDTHS, HEADINGS)
            for item in found.items:
                _row(item, found, datetime.now(UTC))
        st.caption(f"{len(found.items)} of {count(found.total, 'queued run')}. New runs, and runs that end, change the order.")


def waiting_reason(item: QueuedRun, found: Queue) -> str:
    """In words."""
    needed = f"offers {item.needs}" if item.needs else "is alive"
    gpus = count(item.gpus, "GPU")
    start = f"{item.start_after:%Y-%m-%d %H:%M} UTC" if item.start_after else MISSING
    return {
        "next": "a free slot takes it any moment",
        "behind": "the free slots go to runs before it",
        "busy": f"every slot that {needed} is taken" if item.needs else "every slot is taken",
        "gpus": f"{gpus} of one worker are not free yet" if item.gpus > 1 else "no GPU is free yet",
        "no_worker": f"no worker with space for runs {needed}" + (f", or none has {gpus}" if item.gpus else ""),
        "time": f"starts after {start}",
        "limit": f"{count(found.max_active, 'run')} at a time, no more",
        "owner_limit": f"{count(found.max_active_per_owner, 'run')} of an owner at a time, no more",
        "generated": "demo data, which no worker takes",
    }[item.reason]


def _row(item: QueuedRun, found: Queue, now: datetime) -> None:
    place, run, owner, needs, waits, reason, priority, action = st.columns(WIDTHS, vertical_alignment="center")
    place.text(item.place or MISSING)
    run.page_link(page_files.RUN, label=escaped(item.run_name), icon="", query_params={"id": item.run_id})
    owner.text(item.owner or MISSING)
    if item.needs:
        needs.badge(escaped(item.needs), color="gray")
    else:
        needs.text("any")
    waits.text(duration(max(0.0, (now - item.queued_at).total_seconds())))
    reason.text(waiting_reason(item, found))
    if not me().may_write:
        priority.text(item.priority)
        return
    key = f"priority-{item.run_id}-{item.priority}"  # with its value, so that it shows what others have made of it
    label, given = f"Priority of {escaped(item.run_name)}", (LOWEST, HIGHEST, item.priority)
    priority.number_input(label, *given, key=key, label_visibility="collapsed", on_change=_set_priority, args=(item.run_id, key))
    with action, st.popover("Cancel", key=f"cancel-{item.run_id}"):
        st.text("It has not begun: a new run with the same configuration loses nothing.")
        if st.button("Cancel the run", type="primary", key=f"confirm-{item.run_id}"):
            with explained():
                client().cancel(item.run_id)
                st.rerun(scope="fragment")


def _set_priority(run_id: str, key: str) -> None:
    with explained():
        client().change_run(run_id, priority=st.session_state[key])
