"""A response with what drafted its tokens, as HTML in which nothing of the response is markup."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from dashboard.charts.theme import BLUE, ORANGE, faded
from dashboard.text.escaping import visible
from dashboard.text.formats import count, percent
from longtail.schemas.telemetry import Piece

TEXT = "margin:0;padding:0.75rem;white-space:pre-wrap;overflow-wrap:anywhere;border-radius:0.5rem;border:1px solid rgba(128,128,128,0.3)"
OPACITY = 0.28


class SourceStyle(NamedTuple):
    """``css``: a shade, and for those who see no colours a line below."""

    name: str
    css: str


def _drafted(shade: str, line: str) -> str:
    return f"background:{faded(shade, OPACITY)};text-decoration:underline {line} {shade};text-decoration-thickness:2px"


STYLES: Mapping[str, SourceStyle] = {
    "eagle": SourceStyle("the learned drafter", _drafted(BLUE, "solid")),
    "ngram": SourceStyle("n-grams", _drafted(ORANGE, "dotted")),
    "target": SourceStyle("the target itself", ""),
    "unknown": SourceStyle("not known", "opacity:0.75"),
}


SHEET = "".join(f".from-{source}{{{style.css}}}" for source, style in STYLES.items() if style.css)
"""The style sheet of the page that responses stand on: a response of 30,000 tokens has thousands of spans."""


def response(text: str, pieces: Sequence[Piece] | None) -> str:
    """``text`` in one element, each of its ``pieces`` in the style of its source; without them, all in none."""
    spans, start = [], 0
    for source, of_source in groupby(pieces or (), lambda piece: piece.source):
        characters = sum(piece.characters for piece in of_source)
        if part := text[start : start + characters]:
            spans.append(_span(part, source))
        start += characters
    return f'<pre dir="auto" style="{TEXT}">{"".join(spans)}{html.escape(visible(text[start:]))}</pre>'


def _span(text: str, source: str) -> str:
    return f'<span class="from-{source}">{html.escape(visible(text))}</span>' if STYLES[source].css else html.escape(visible(text))


def legend() -> str:
    """The styles, each with its name, and their sheet."""
    named = (f'<span class="from-{source}" style="padding:0 0.3em">{html.escape(style.name)}</span>' for source, style in STYLES.items())
    return f"<style>{SHEET}</style><p>Tokens of: {'&nbsp; '.join(named)}</p>"


def outcome(word: str, shade: str) -> str:
    """A word with a bar of its colour."""
    return f'<span style="border-left:4px solid {shade};padding-left:0.5em;font-weight:600">{html.escape(word)}</span>'


def drafted_shares(pieces: Sequence[Piece] | None) -> str:
    """``412 tokens, 62 % of them drafted: 50 % by the learned drafter, 12 % by n-grams``."""
    if pieces is None:
        return "what drafted its tokens is not known"
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts[piece.source] += piece.tokens
    total = counts.total()
    drafted = {STYLES[source].name: counts[source] for source in ("eagle", "ngram") if counts[source]}
    if len(drafted) < 2:
        share = percent(sum(drafted.values()) / total) if drafted else "none"
        return f"{count(total, 'token')}, {share} of them drafted" + "".join(f" by {name}" for name in drafted)
    by = ", ".join(f"{percent(tokens / total)} by {name}" for name, tokens in drafted.items())
    return f"{count(total, 'token')}, {percent(sum(drafted.values()) / total)} of them drafted: {by}"
