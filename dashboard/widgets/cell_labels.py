"""Labels of cells, for windows so narrow that each row of a table becomes a card (see assets/narrow.css)."""

import hashlib
from collections.abc import Sequence

import streamlit as st

NARROW = "640px"
PLAIN = " -_.,()+/"


def labelled(cells: str, headings: Sequence[str]) -> str:
    """CSS that gives each of the ``cells``, a selector, the heading of its column as its label."""
    rules = "".join(f'{cells}:nth-child({place}){{--label:"{_css(heading)}"}}' for place, heading in enumerate(headings, 1))
    return f"<style>@media (max-width: {NARROW}) {{{rules}}}</style>"


def label_next_table(headings: Sequence[str]) -> None:
    """Of the table that follows."""
    name = f"labels-{hashlib.sha256(repr(headings).encode()).hexdigest()[:8]}"
    cells = f".stElementContainer:has(.{name}) + .stElementContainer td"
    st.html(f'{labelled(cells, headings)}<span class="cell-labels {name}"></span>')


def row_headings(key: str, widths: Sequence[float], headings: Sequence[str]) -> None:
    """The first row, in columns, of the container ``key`` (which begins with ``rows-``), and the labels of those below."""
    for column, heading in zip(st.columns(widths), headings, strict=True):
        column.caption(heading)
    st.html(labelled(f".st-key-{key} .stColumn", headings))


def _css(text: str) -> str:
    """Nothing in it ends the string, or the style. A space ends what is escaped, or CSS would take the one that follows for that."""
    return "".join(letter if (letter.isascii() and letter.isalnum()) or letter in PLAIN else f"\\{ord(letter):06x} " for letter in text)
