"""The list of runs on a phone."""

from example_runs import NOW, run

from dashboard.views.runs.run_cards import run_cards

HOSTILE = '"><img src=x onerror=alert(1)>'


def test_a_card_links_to_its_run_and_tells_how_it_does() -> None:
    html = run_cards([run("0123456789abcdef", {"name": "first"})], {}, {}, NOW)
    assert '<a href="/run?id=0123456789abcdef" target="_self">first</a>' in html
    assert "running · TLT · 17\xa0%" in html


def test_a_card_tells_the_reward_with_its_spread() -> None:
    told = run("0123456789abcdef", {"name": "first"}).model_copy(update={"summary": {"reward_recent": 0.5123, "reward_spread": 0.031}})
    assert "<dt>Reward</dt><dd>0.512 ± 0.031</dd>" in run_cards([told], {}, {}, NOW)


def test_nothing_of_a_run_is_markup() -> None:
    html = run_cards([run("0123456789abcdef", {"name": HOSTILE})], {}, {}, NOW)
    assert "<img" not in html
    assert "&lt;img" in html
