"""Choices of the list under names of one's own. A view is what the address holds."""

import streamlit as st

from dashboard import page_files
from dashboard.data.preferences import keep, preference
from dashboard.text.escaping import escaped

VIEWS = "run-views"
MOST, LONGEST = 30, 60
LEFT_OUT = frozenset({"page"})


def saved_views() -> None:
    known = [view for view in preference(VIEWS) if isinstance(view, dict) and "name" in view and isinstance(view.get("address"), dict)]
    with st.popover("Views", key="views", help="Search, filters and order under a name"):
        for view in known:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.page_link(page_files.RUNS, label=escaped(view["name"]), query_params=view["address"], width="stretch")
                st.button(
                    "Forget",
                    key=f"forget-{view['name']}",
                    type="tertiary",
                    on_click=keep,
                    args=(VIEWS, [each for each in known if each is not view]),
                )
        if not known:
            st.caption("None yet: choose what the list shows, and keep it.")
        name = st.text_input("Keep what is shown now as", key="view-name", max_chars=LONGEST).strip()
        st.button("Keep", disabled=not name or len(known) >= MOST, on_click=_keep, args=(name, known))


def _keep(name: str, known: list[dict[str, object]]) -> None:
    address = {key: st.query_params.get_all(key) for key in st.query_params if key not in LEFT_OUT}
    keep(VIEWS, [*(view for view in known if view["name"] != name), {"name": name, "address": address}])
