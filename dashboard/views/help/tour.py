"""A tour of up to five stations, offered at the first visit. It can be left at any of them, and is not offered again then. Whoever goes to
another page meanwhile is not followed; Help goes on with it."""

from pathlib import Path

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import client
from dashboard.data.preferences import keep, preference
from dashboard.views.help.stations import Route, route
from dashboard.views.run.chosen_run import LAST
from dashboard.widgets.page_switch import switch_page

SEEN, AT, GOES, ROUTE, DRAWN, LEFT = "tour", "tour-station", "tour-goes", "tour-route", "tour-drawn", "tour-left"
"""Keys of the session: whether the tour was seen, its station, whether it leads there now, its route, the station that has been drawn, and
the one that the reader has left."""
ONE_CLICK = Path(page_files.__file__).with_name("assets") / "one_click_a_station.js"
state = st.session_state


def begin() -> None:
    state[AT] = 0
    state.pop(ROUTE, None)
    state.pop(LEFT, None)


def is_left() -> bool:
    """Whether the reader has left it before its end, so that it can go on."""
    return LEFT in state


def go_on() -> None:
    """Where it was left, with the runs that there are by now."""
    state[AT], state[GOES] = state.pop(LEFT), True
    state.pop(ROUTE, None)


def show(file: str) -> None:
    """The station of this page, if the tour is there; on the list of runs of who has not seen it, the offer. ``file``: empty if it is that
    of a page without a station."""
    if AT not in state:
        if file == page_files.RUNS and not preference(SEEN):
            _offer()
        return
    if ROUTE not in state:
        state[ROUTE] = route(client().runs().items)
    way: Route = state[ROUTE]
    at = state[AT] = min(state[AT], len(way.stations) - 1)
    if state.pop(GOES, False):
        switch_page(way.stations[at].file, way.address(at))
    if way.stations[at].file == file and (not way.stations[at].tab or _run_shown() in (way.run_id, None)):
        state[DRAWN] = at
        _station(way, at)
    elif state.get(DRAWN) == at:
        _leave(at)


def follow_tab(run_id: str, tab: str) -> bool:
    """Whether the reader has gone to another ``tab`` of the run than the station tells of: then the tour is at that tab's station, or left
    where there is none, and the page has to be drawn anew."""
    way: Route | None = state.get(ROUTE)
    at: int | None = state.get(AT)
    if way is None or at is None or at != state.get(DRAWN) or way.run_id != run_id or way.stations[at].tab in ("", tab):
        return False
    there = next((number for number, station in enumerate(way.stations) if station.tab == tab), None)
    if there is None:
        _leave(at)
    else:
        state[AT] = there
    return True


def _run_shown() -> str | None:
    """On the page of a run; see chosen_run."""
    shown: str | None = st.query_params.get("id") or state.get(LAST)
    return shown


def _offer() -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="tour-offer"):
        st.markdown(
            "**New here?** A short tour shows what there is to see. If you leave it, Help goes on with it until you load the page anew.",
            width="stretch",
        )
        st.button("Show me around", type="primary", on_click=begin)
        st.button("No, thanks", on_click=_end)


def _station(way: Route, at: int) -> None:
    """ "Next" is one button, at the end of each: while the next station is drawn it stays where it is, or a click on it could miss it, and
    the keyboard's focus would be gone. At the last it does nothing, or the second one of two clicks would end the tour."""
    station, is_last = way.stations[at], at + 1 == len(way.stations)
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="tour"):
        st.markdown(f"**{at + 1} of {len(way.stations)}: {station.title}.** {station.text}", width="stretch")
        if is_last:
            st.button("Done", type="primary", on_click=_end)
            st.button("Next", type="primary", key="tour-on", disabled=True)
        else:
            st.button("Leave the tour", on_click=_leave, args=(at,))
            st.button("Next", type="primary", key="tour-on", on_click=_go, args=(at + 1,))
    with st.container(key="tour-clicks"):
        st.html(f"<script>{ONE_CLICK.read_text(encoding='utf-8')}</script>", unsafe_allow_javascript=True)


def _go(at: int) -> None:
    """The address of a tab is that tab's own: on the page where it is, the tab is opened, and not its address."""
    way: Route = state[ROUTE]
    if way.stations[at].file == way.stations[at - 1].file and state.get(LAST) == way.run_id:
        state["tab"] = way.stations[at].tab
    else:
        state[GOES] = True
    state[AT] = at


def _leave(at: int) -> None:
    state[LEFT] = at
    _end()


def _end() -> None:
    state.pop(AT, None)
    state.pop(DRAWN, None)
    keep(SEEN, ["seen"])
