"""What the model was asked, what it answered, how each answer did within its group, and what drafted the tokens of that."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_args

import streamlit as st

from dashboard import page_files
from dashboard.analysis.sample_groups import SampleGroup, in_pages, sample_groups
from dashboard.auth.api_client import client
from dashboard.charts.theme import GREEN, GREY, VERMILION
from dashboard.data.offline_cache import fetch_or_cached
from dashboard.data.run_data import DataQuery, RunData
from dashboard.text.escaping import escaped, visible
from dashboard.text.formats import count, number
from dashboard.text.run_labels import run_labels
from dashboard.views.run import response_html
from dashboard.views.run.tabs.tab import Tab, training_run
from dashboard.widgets.panel import to_come
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import SEARCHED_SAMPLES, Outcome, SampleItem

HEIGHT, LAST_STEP, MOST, OTHERS = 900, 2**31 - 1, 60, 20
ORDERS = ("newest first", "longest first")
ELSEWHERE = "Elsewhere: the same prompt at other steps, or in another run"
THIS, HELP = "this run", f"This run, or one of the newest {OTHERS} that are found"
PAGE_CHARACTERS, LONGEST_SHOWN = 100_000, 20_000
"""Of the responses on a page, and of one that is not wanted whole: each piece of it is an element that the browser has to lay out."""
SAMPLES_A_STEP = 4
"""At most, that are told."""


def show(data: RunData) -> None:
    run = data.run
    with st.container(horizontal=True, vertical_alignment="bottom"):
        contains = st.text_input(
            "Search", key="sample-search", bind="query-params", placeholder="text in prompt or response", max_chars=200, width=230
        )
        outcome = st.pills("Outcome", get_args(Outcome), key="sample-outcome", bind="query-params")
        step = st.number_input("Step", 0, LAST_STEP, None, key="sample-step", bind="query-params", placeholder="all", width=130)
        order = st.selectbox("Order", ORDERS, key="sample-order", bind="query-params", width=160)
        st.html(response_html.legend(), width="content")
    asked = (run.id, contains, outcome, step, order)
    wanted: dict[str, Any] = {"step": step, "outcome": outcome, "contains": contains, "longest": order == ORDERS[1]}
    found = fetch_or_cached("samples", asked, partial(client().samples, run.id, limit=MOST, **wanted), data.asked_at)
    if found is None:
        return
    if not found:
        chosen = contains or outcome or step is not None
        st.caption("No sample is like that." if chosen else to_come("A few responses of each step will appear here."))
        return
    groups = sample_groups(found, longest_first=order == ORDERS[1])
    st.caption(f"{count(len(found), 'response')} to {count(len(groups), 'prompt')}{_among(run.step, wanted)}")
    pages = in_pages(groups, PAGE_CHARACTERS)
    page = st.pagination(len(pages), key=f"sample-page-{hash(asked)}") if len(pages) > 1 else 1
    with st.container(height=HEIGHT, border=False):
        for group in pages[min(page, len(pages)) - 1]:
            _group(data, group)


def _among(steps: int, wanted: Mapping[str, Any]) -> str:
    """Where not all were looked at."""
    searched = wanted["step"] is None and (wanted["outcome"] or wanted["contains"] or wanted["longest"])
    if not searched or steps * SAMPLES_A_STEP <= SEARCHED_SAMPLES:
        return ""
    return f", of the latest {SEARCHED_SAMPLES:,} responses; choose a step to look further back"


def _group(data: RunData, group: SampleGroup) -> None:
    with st.container(border=True):
        st.markdown(f"**step {group.step}**{rewards_told(group)}")
        place = f"{data.run.id}-{group.step}-{group.items[0].prompt_number}-{hash(group.prompt)}"
        st.code(visible(group.prompt), language=None, wrap_lines=True)
        more = st.expander(ELSEWHERE, key=f"elsewhere-{place}", on_change="rerun")
        if more.open:
            with more:
                _elsewhere(data, group, place)
        numbered = [*enumerate(group.items)]
        for first in range(0, len(numbered), 2):
            columns = st.columns(2) if len(numbered) > 1 else [st.container()]
            for column, (number, item) in zip(columns, numbered[first : first + 2], strict=False):
                with column:
                    _response(item, f"{place}-{number}")


def rewards_told(group: SampleGroup) -> str:
    """Those of all responses to the prompt, not only of those shown."""
    rewards = group.rewards
    if not rewards:
        return ""
    listed = ", ".join(f"{reward:g}" for reward in rewards)
    return f" · {count(len(rewards), 'response')}, rewards {listed}, mean {number(sum(rewards) / len(rewards))}"


def _response(item: SampleItem, place: str) -> None:
    """``place`` keeps it apart from others on the page."""
    st.html(response_html.outcome(*judged(item)))
    advantage = "" if item.advantage is None else f" · advantage **{advantage_told(item.advantage)}**"
    cut = " · cut at the limit" if item.truncated else ""
    told = escaped(response_html.drafted_shares(item.pieces))
    st.markdown(f"reward **{number(item.reward)}**{advantage}{cut} · {told}")
    text, length = item.response, len(item.response)
    if length > LONGEST_SHOWN and not st.toggle(f"All {length:,} characters", key=f"whole-{place}"):
        text = text[:LONGEST_SHOWN]
    st.html(response_html.response(text, item.pieces))


def advantage_told(advantage: float) -> str:
    """With its sign, if it is any."""
    return f"{advantage:+.2f}" if round(advantage, 2) else "0.00"


def judged(item: SampleItem) -> tuple[str, str]:
    """A word, and its colour."""
    if item.reward is None:
        return "not told", GREY
    return ("right", GREEN) if item.is_right else ("wrong", VERMILION)


def offered(run: Run, found: Sequence[Run]) -> dict[str, str]:
    """By id what to call each of the runs to look in: ``run`` itself, and the others of those that were found. No two have one name, since
    a choice is known by what it is called."""
    others = run_labels([other for other in found if other.id != run.id])
    return {run.id: THIS} | {run_id: f"{label} ({run_id[:6]})" if label == THIS else label for run_id, label in others.items()}


def not_found(run: Run, found: Sequence[Run] | None, query: str) -> str | None:
    """As Markdown, that a search for other runs than ``run`` found none; of what was not answered nothing is known."""
    if found is None or any(other.id != run.id for other in found):
        return None
    if not query:
        return "There is no other run to look in."
    return f"No other run has {escaped(query)} in its name or notes, or at the beginning of its id."


def _elsewhere(data: RunData, group: SampleGroup, place: str) -> None:
    """Side by side: the earliest and latest answers of this run, or those of another one."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    hint = "name, notes or id"
    query = row.text_input("Find a run", type="search", max_chars=200, key=f"other-find-{place}", placeholder=hint, live=True, width=230)
    runs = fetch_or_cached("other-runs", query, lambda: client().runs(q=query or None, limit=OTHERS).items, data.asked_at)
    names = offered(data.run, runs or ())
    chosen = row.selectbox("In", list(names), format_func=names.__getitem__, key=f"other-{place}", help=HELP, width=260)
    if nothing := not_found(data.run, runs, query):
        st.caption(nothing)
    asked, fetch = (chosen, group.prompt), partial(client().samples, chosen, limit=MOST, prompt=group.prompt)
    found = fetch_or_cached("other-samples", asked, fetch, data.asked_at)
    if found is None:
        return
    there = [item for item in found if chosen != data.run.id or item.step != group.step]
    if not there:
        st.caption(
            "It has no sample of this prompt." if chosen != data.run.id else "This run has no sample of this prompt at another step."
        )
        return
    steps = sorted({item.step for item in there})
    step = row.selectbox("Step", steps, len(steps) - 1, key=f"other-step-{place}", width=130)
    if chosen != data.run.id:
        row.page_link(page_files.RUN, label="Open that run", query_params={"id": chosen, "tab": "Samples"})
    here, other = st.columns(2)
    with here:
        st.caption(f"this run, step {group.step}")
        _response(group.items[0], f"here-{place}")
    with other:
        st.caption(f"{escaped(names[chosen])}, step {step}")
        _response(next(item for item in there if item.step == step), f"there-{place}")


TAB = Tab("Samples", show, DataQuery(), training_run)
