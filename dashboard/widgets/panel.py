"""What panels share: a titled frame, a chart in it with its legend and its table, the colour of a state."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts.description import description, table
from dashboard.text.formats import MISSING
from dashboard.widgets.chart_legend import legend_html
from dashboard.widgets.popover import popover
from longtail.schemas.runs import RunState

Color = Literal["gray", "blue", "green", "red", "orange", "violet", "yellow"]
STATE_COLORS: dict[RunState, Color] = {
    "queued": "gray",
    "starting": "violet",
    "running": "blue",
    "paused": "orange",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
}
CHART = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"]}
MARGIN = 22
"""Above a chart, in pixels: room for what stands over its lanes."""
NONE_CAME = "Nothing of this was recorded before the run ended."
BLANK = go.Figure(layout={"height": 10, "margin": dict.fromkeys("lrtb", 0), "xaxis": {"visible": False}, "yaxis": {"visible": False}})
_ended: ContextVar[bool] = ContextVar("ended", default=False)
"""Whether what is being drawn is of a run from which nothing more comes."""


@contextmanager
def charts_ahead() -> Iterator[None]:
    """A page with charts. The first one of a session has an invisible chart below it until the page is there: so that the browser loads
    what draws charts while the script still asks the API."""
    page, below = st.container(), st.empty()
    if st.session_state.setdefault("charts_to_come", True):
        below.plotly_chart(BLANK, key="ahead", config={"staticPlot": True})
    try:
        with page:
            yield
        st.session_state["charts_to_come"] = False
    finally:
        below.empty()


@contextmanager
def nothing_to_come(ended: bool) -> Iterator[None]:
    """Of a run that has ``ended``, what is empty is not said to be filled."""
    before = _ended.set(ended)
    try:
        yield
    finally:
        _ended.reset(before)


@contextmanager
def panel(title: str, help: str | None = None) -> Iterator[DeltaGenerator]:
    """A frame; gives the right end of its title row, for a control."""
    with st.container(border=True, height="stretch"):
        head = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
        head.markdown(f"**{title}**", help=help, width="content")
        yield head


def chart(figure: go.Figure | None, key: str, otherwise: str = "") -> None:
    """Or what is told ``otherwise``, while there is no data for it. Streamlit draws a chart anew, without the reader's zoom, when its data
    changes; ``key`` keeps it apart from its neighbours."""
    if figure is None:
        empty(otherwise)
        return
    with st.container(horizontal=True, vertical_alignment="top", horizontal_alignment="right", gap="small", wrap=False):
        if legend := legend_html(figure):
            st.html(legend, width="stretch")
        _table(figure, key)
    figure.update_layout(showlegend=False, margin_t=MARGIN).update_traces(showscale=False, selector={"type": "heatmap"})
    st.plotly_chart(figure, key=key, config=CHART, alt=description(figure))


def _table(figure: go.Figure, key: str) -> None:
    """Behind a button."""

    def show() -> None:
        st.dataframe(table(figure), hide_index=True, placeholder=MISSING, alt=description(figure))

    popover("Table", f"table-{key}", show, type="tertiary")


def to_come(message: str) -> str:
    """The ``message`` that something will appear here, or, of a run that has ended, that nothing has."""
    return NONE_CAME if _ended.get() else message


def empty(message: str) -> None:
    """Stands in for a chart that has no data yet, or never will have."""
    with st.container(height=240, border=False, horizontal_alignment="center", vertical_alignment="center"):
        st.caption(message, text_alignment="center")
