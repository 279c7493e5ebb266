"""What a run said and left: samples, log, configuration, files. All of it foreign text, shown as text."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st
import yaml

from backend.schemas.artifacts import Artifact
from backend.schemas.runs import Run
from backend.schemas.telemetry import DrafterSession, LogLine, SampleItem
from dashboard.connection import client
from dashboard.feed import Feed
from dashboard.formats import MISSING, number, plain, size

HEIGHT = 480


def records(feed: Feed) -> None:
    alarms = [line for line in feed.logs if line.level == "alarm"]
    names = [
        "Samples",
        "Log" + (f" ({len(alarms)} alarms)" if alarms else ""),
        "Drafter versions",
        "Configuration",
        f"Files ({len(feed.artifacts)})",
    ]
    samples_tab, log_tab, drafter_tab, config_tab, files_tab = st.tabs(names, key="records")
    with samples_tab:
        samples(feed.samples)
    with log_tab:
        log(feed.logs, alarms)
    with drafter_tab:
        versions(feed.drafters)
    with config_tab:
        configuration(feed.run)
    with files_tab:
        files(feed.artifacts)


def samples(items: Sequence[SampleItem]) -> None:
    if not items:
        st.caption("A few responses of each step will appear here.")
        return
    with st.container(height=HEIGHT, border=False):
        for item in reversed(items):
            place, prompt, response = st.columns([1, 2, 6])
            place.markdown(f"step {item.step}  \nreward **{number(item.reward)}**")
            prompt.code(item.prompt, language=None, wrap_lines=True)
            response.code(item.response, language=None, wrap_lines=True)


def log(lines: Sequence[LogLine], alarms: Sequence[LogLine]) -> None:
    latest = {line.code: line for line in alarms}
    for code, count in Counter(line.code for line in alarms).items():
        st.warning(f"**{plain(code)}**, {count} times, last at step {latest[code].step}: {plain(latest[code].message)}", icon="⚠️")
    text = "\n".join(_line(line) for line in lines)
    st.code(text or "Nothing logged yet.", language=None, wrap_lines=True, height=min(HEIGHT, 60 + 22 * len(lines)) if lines else "content")


def _line(line: LogLine) -> str:
    where = "" if line.step is None else f"step {line.step}: "
    return f"{datetime.fromtimestamp(line.time, UTC):%H:%M:%S}  {line.level:<7}  {where}{line.message}"


def versions(sessions: Sequence[DrafterSession]) -> None:
    if not sessions:
        st.caption("No drafter has been trained.")
        return
    rows = [
        {
            "step": session.step,
            "version": session.drafter_version,
            "published": "yes" if session.published else "no",
            "held-out before": session.held_out_before,
            "held-out after": session.held_out_after,
            "length mix off by": session.mix_distance,
            "tokens": session.tokens,
            "micro-steps": session.microsteps,
            "reason": session.reason,
        }
        for session in reversed(sessions)
    ]
    st.dataframe(rows, hide_index=True, placeholder=MISSING)


def configuration(run: Run) -> None:
    st.code(yaml.safe_dump(run.config, sort_keys=False), language="yaml")


def files(artifacts: Sequence[Artifact]) -> None:
    if not artifacts:
        st.caption("The drafter and the policy can be downloaded here when the run has saved them.")
    for artifact in artifacts:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(artifact.name)}**  \n{plain(artifact.type)}, {size(artifact.bytes)}", width="content")
            details = ", ".join(f"{key} {value}" for key, value in artifact.metadata.items())
            st.caption(f"{plain(details)}  \nsha256 `{artifact.sha256}`", width="stretch")
            st.link_button("Download", client().artifact_url(artifact.id), icon="⬇️")
