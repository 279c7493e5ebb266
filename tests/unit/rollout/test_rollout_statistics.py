"""What is counted of a rollout."""

from engine.rollout.interface import RolloutStatistics


def test_first_drafts_of_n_grams_say_nothing_of_the_learned_drafter() -> None:
    both = RolloutStatistics(
        drafted_by_position=[100, 80],
        accepted_by_position=[70, 40],
        ngram_drafted_by_position=[30, 30],
        ngram_accepted_by_position=[10, 5],
    )
    assert both.learned_first_drafts() == (70, 60)
    both.ngram_drafted_by_position, both.ngram_accepted_by_position = both.drafted_by_position, both.accepted_by_position
    assert both.learned_first_drafts() == (0, 0)
    assert RolloutStatistics(drafted_by_position=[9], accepted_by_position=[4]).learned_first_drafts() == (9, 4), "SGLang with EAGLE"
    assert RolloutStatistics().learned_first_drafts() == (0, 0)
