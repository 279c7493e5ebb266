"""Rows on a phone."""

from dashboard.widgets.cards import Card, cards_html

HOSTILE = '"><img src=x onerror=alert(1)>'


def test_a_card_tells_its_name_a_line_and_the_facts_that_there_are() -> None:
    html = cards_html("Runs", [Card("first", {"Reward": "0.5", "Speed-up": ""}, "running", "/run?id=1")])
    assert '<a href="/run?id=1" target="_self">first</a><p>running</p>' in html
    assert html.count("<dt>") == 1
    assert "<dt>Reward</dt><dd>0.5</dd>" in html


def test_what_leads_nowhere_is_no_link() -> None:
    assert "<a" not in cards_html("Versions", [Card("Step 3", {})])


def test_nothing_of_a_row_is_markup() -> None:
    html = cards_html(HOSTILE, [Card(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, HOSTILE)])
    assert "<img" not in html
    assert html.count("&lt;img") == 6
