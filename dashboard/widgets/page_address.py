"""What the address of a page may hold."""

from collections.abc import Collection, Mapping

import streamlit as st

OWNERS: Mapping[str, Collection[str]] = {
    "id": ("run", "artifacts"),
    "tab": ("run", "settings"),
    "runs": ("compare",),
    "from": ("new", "planner"),
}
"""The paths of the pages that know a parameter, by its name: of those that lead somewhere."""


def drop_foreign(path: str) -> None:
    """What only other pages than the one at ``path`` know. Streamlit writes the parameters of a page that something leads to into the
    address of the page that is left, where the way back finds them."""
    for name, paths in OWNERS.items():
        if name in st.query_params and path not in paths:
            del st.query_params[name]
