"""A tour of five stations, offered at the first visit. It can be left at any of them, and is not offered again then."""

from typing import NamedTuple

import streamlit as st

from dashboard import page_files
from dashboard.data.preferences import keep, preference
from dashboard.widgets.page_switch import switch_page

SEEN, AT, GOES = "tour", "tour-station", "tour-goes"


class Station(NamedTuple):
    """What to look at on the page of this file, and with which parameters of its address."""

    file: str
    title: str
    text: str
    address: dict[str, str]


STATIONS = (
    Station(
        page_files.RUNS,
        "All runs",
        "Each row is a run, and on a phone each card. Select two in the table and compare them; a click on a name opens one.",
        {},
    ),
    Station(
        page_files.RUN,
        "One run",
        "Three cards answer: is it training, is it faster, and why? Below, Overview shows the reward and where the seconds of a step go.",
        {"tab": "Overview"},
    ),
    Station(
        page_files.RUN,
        "The long tail",
        "In the timeline each lane is a worker. Where it waits for the longest responses, it trains the drafter.",
        {"tab": "Timeline"},
    ),
    Station(
        page_files.RUN,
        "Speculation",
        "How many tokens a pass of the model yields, what drafts them, and whether the tuner chooses well.",
        {"tab": "Speculation"},
    ),
    Station(page_files.COMPARE, "Side by side", "Curves, speed-ups of runs that do the same work, and what settings did to figures.", {}),
)
state = st.session_state


def begin() -> None:
    state[AT] = 0


def show(file: str) -> None:
    """The station of this page, if the tour is there; on the list of runs of who has not seen it, the offer."""
    at = state.get(AT)
    if at is not None and state.pop(GOES, False):
        switch_page(STATIONS[at].file, STATIONS[at].address)
    if at is None:
        if file == page_files.RUNS and not preference(SEEN):
            _offer()
    elif STATIONS[at].file == file:
        _station(at)


def _offer() -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="tour-offer"):
        st.markdown("**New here?** Five stations show what there is to see.", width="stretch")
        st.button("Show me around", type="primary", on_click=begin)
        st.button("No, thanks", on_click=_end)


def _station(at: int) -> None:
    """ "Next" is one button, at the end of each: while the next station is drawn it stays where it is, or a click on it could miss it. At
    the last it does nothing, or the second one of two clicks would end the tour."""
    station, is_last = STATIONS[at], at + 1 == len(STATIONS)
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="tour"):
        st.markdown(f"**{at + 1} of {len(STATIONS)}: {station.title}.** {station.text}", width="stretch")
        if is_last:
            st.button("Done", type="primary", on_click=_end)
            st.button("Next", type="primary", key="tour-on", disabled=True)
        else:
            st.button("Leave the tour", on_click=_end)
            st.button("Next", type="primary", key="tour-on", on_click=_go, args=(at + 1,))


def _go(at: int) -> None:
    """The address of a tab is that tab's own: on the page where it is, the tab is opened, and not its address."""
    if STATIONS[at].file == STATIONS[at - 1].file:
        state["tab"] = STATIONS[at].address["tab"]
    else:
        state[GOES] = True
    state[AT] = at


def _end() -> None:
    state.pop(AT, None)
    keep(SEEN, ["seen"])
