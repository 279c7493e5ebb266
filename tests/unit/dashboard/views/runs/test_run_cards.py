"""The list of runs on a phone."""

from example_runs import NOW, run

from dashboard.analysis.run_groups import run_groups
from dashboard.views.runs.run_cards import group_cards, run_cards

FIRST, SECOND = "0123456789abcdef", "fedcba9876543210"


def test_a_card_links_to_its_run_and_tells_how_it_does() -> None:
    (card,) = run_cards([run(FIRST, {"name": "first"})], {}, {}, NOW)
    assert (card.name, card.address) == ("first", f"/run?id={FIRST}")
    assert card.line == "running · TLT · 17\xa0%"


def test_a_card_tells_the_reward_with_its_spread() -> None:
    told = run(FIRST, {"name": "first"}).model_copy(update={"summary": {"reward_recent": 0.5123, "reward_spread": 0.031}})
    (card,) = run_cards([told], {}, {}, NOW)
    assert card.facts["Reward"] == "0.512 ± 0.031"


def test_seeds_of_a_group_are_one_card() -> None:
    groups = run_groups([run(FIRST, {"name": "first", "seed": 1, "workers": 2}), run(SECOND, {"name": "second", "seed": 2, "workers": 2})])
    (card,) = group_cards(groups, {})
    assert (card.name, card.address) == ("first and 1 more run", f"/run?id={FIRST}")
    assert card.facts["Seeds"] == "1, 2"
