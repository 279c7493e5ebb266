from html.parser import HTMLParser

import pytest

from dashboard.text.escaping import visible, without_colors
from dashboard.views.run.response_html import STYLES, drafted_shares, legend, response
from longtail.schemas.telemetry import Piece

HOSTILE = (
    "<img src=x onerror=alert(1)> <script>alert(2)</script> </span></pre> \"quoted\" 'single' &amp; &#60;b&#62; <!-- -->\n"
    "\x1b[31mred\x1b[0m \x00 \N{ARABIC LETTER ALEF} \N{RIGHT-TO-LEFT OVERRIDE}abc \N{GRINNING FACE}"
)


class Reader(HTMLParser):
    """The text of a page, and its tags with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_nothing_of_a_response_is_markup_however_it_is_cut(size: int) -> None:
    sources = ("eagle", "target", "ngram", "unknown")
    starts = range(0, len(HOSTILE), size)
    made = [Piece(sources[place % 4], 1, min(size, len(HOSTILE) - start)) for place, start in enumerate(starts)]  # type: ignore[arg-type]
    page = Reader(response(HOSTILE, made))
    assert page.text == visible(HOSTILE)
    assert [tag for tag, _ in page.tags] == ["pre", *["span"] * sum(piece.source != "target" for piece in made)]
    assert {tuple(attributes) for tag, attributes in page.tags if tag == "span"} == {("class",)}
    assert {attributes["class"] for tag, attributes in page.tags if tag == "span"} <= {f"from-{source}" for source in STYLES}


def test_a_long_response_is_little_more_than_its_text() -> None:
    """The target's own tokens need no element, and neighbours of one source are one; what is cut off has none."""
    made = [Piece("eagle", 3, 12), Piece("target", 1, 4)] * 1000
    assert len(response("abcd" * 4000, made)) < 4 * len("abcd" * 4000)
    same = Reader(response("abcdefgh", [Piece("eagle", 1, 4), Piece("eagle", 1, 4), Piece("ngram", 1, 100)]))
    assert (same.text, [tag for tag, _ in same.tags]) == ("abcdefgh", ["pre", "span"])


def test_the_page_has_the_style_of_each_source() -> None:
    assert all(f".from-{source}{{{style.css}}}" in legend() for source, style in STYLES.items() if style.css)


def test_without_pieces_all_is_plain() -> None:
    page = Reader(response(HOSTILE, None))
    assert (page.text, [tag for tag, _ in page.tags]) == (visible(HOSTILE), ["pre"])


def test_what_is_behind_the_pieces_is_shown_too() -> None:
    assert Reader(response("abcdef", [Piece("eagle", 1, 2)])).text == "abcdef"


def test_drafters_differ_without_their_colours() -> None:
    lines = [style.css.partition("text-decoration:")[2].split()[:2] for style in STYLES.values()]
    assert lines[:3] == [["underline", "solid"], ["underline", "dotted"], []]
    assert all(style.name in Reader(legend()).text for style in STYLES.values())


def test_how_much_was_drafted_is_told() -> None:
    made = [Piece("eagle", 5, 9), Piece("target", 3, 1), Piece("ngram", 2, 4)]
    assert drafted_shares(made) == "10 tokens, 70\xa0% of them drafted: 50\xa0% by the learned drafter, 20\xa0% by n-grams"
    assert drafted_shares([Piece("target", 3, 1)]) == "3 tokens, none of them drafted"
    assert drafted_shares([Piece("target", 1, 1), Piece("eagle", 3, 3)]) == "4 tokens, 75\xa0% of them drafted by the learned drafter"
    assert drafted_shares(None) == "what drafted its tokens is not known"


def test_control_characters_are_seen_and_colours_of_a_terminal_left_out() -> None:
    text = "\x1b[1;31mred\x1b[0m\tand \x1b]0;title\x07 \x1b[2Jgone\r\x7f\x9b\nnext"
    escape = "\N{SYMBOL FOR ESCAPE}"
    assert (
        without_colors(text) == f"red\tand {escape}]0;title\N{SYMBOL FOR BELL} {escape}[2Jgone\N{SYMBOL FOR CARRIAGE RETURN}␡\ufffd\nnext"
    )
    assert len(visible(text)) == len(text)
