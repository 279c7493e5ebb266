"""Rows of a grid as cards, for windows so narrow that one would see two of its columns. The style sheet shows one or the other."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.text.escaping import visible


@dataclass(frozen=True)
class Card:
    """A row: its ``name``, a link where it has an ``address``, a ``line`` below it, and its ``facts`` by heading, of which empty ones are
    left out. Nothing of them is markup."""

    name: str
    facts: Mapping[str, str]
    line: str = ""
    address: str = ""


def cards_html(title: str, cards: Iterable[Card]) -> str:
    """A list, which a screen reader calls ``title``."""
    return f'<div class="cards" role="list" aria-label="{html.escape(title)}">{"".join(map(_card, cards))}</div>'


def grid_or_cards(title: str, rows: Sequence[Mapping[str, Any]], cards: Sequence[Card], **grid: Any) -> None:
    """``rows`` in a grid with these settings, or in a narrow window the ``cards``, which may be fewer."""
    key = title.lower().replace(" ", "-")
    with st.container(key=f"grid-{key}"):
        st.dataframe(rows, hide_index=True, alt=title, **grid)
    with st.container(key=f"cards-{key}"):
        st.html(cards_html(title, cards))
        if len(cards) < len(rows):
            st.caption(f"The first {len(cards)} of {len(rows):,}. A wider window shows all.")


def _card(card: Card) -> str:
    name = _text(card.name)
    head = f'<a href="{html.escape(card.address)}" target="_self">{name}</a>' if card.address else f"<b>{name}</b>"
    line = f"<p>{_text(card.line)}</p>" if card.line else ""
    facts = "".join(f"<div><dt>{_text(heading)}</dt><dd>{_text(fact)}</dd></div>" for heading, fact in card.facts.items() if fact)
    return f'<div role="listitem">{head}{line}<dl>{facts}</dl></div>'


def _text(foreign: str) -> str:
    return html.escape(visible(foreign))
