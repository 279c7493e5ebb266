"""Each token's source: what drafted it, or the target itself."""

from collections import Counter

from native_cases import RandomTuner, chains, make_engine, make_guessable, make_requests, make_target, random_drafter, with_random_tuner

from engine.config import SpeculationConfig
from engine.rollout.interface import SOURCES, Completion, Sampling

LIMIT, DEEPEST = 30, 5
GREEDY = Sampling(temperature=0, max_new_tokens=LIMIT)


def sources(completion: Completion) -> list[str]:
    assert len(completion.sources) == len(completion.tokens)
    return [SOURCES[code] for code in completion.sources]


def test_accepted_drafts_come_before_the_target_s_own_token() -> None:
    target = make_target("qwen2", tie_word_embeddings=False)
    drafter = make_guessable(target)
    for request in make_requests(3, 48, seed=2):
        engine = make_engine(target, drafter, chains(DEEPEST))
        tuner = with_random_tuner(engine, RandomTuner(DEEPEST, seed=request.id))
        (completion,) = engine.generate([request], GREEDY)
        made = [source for _, (drafts,) in tuner.steps for source in [*["eagle"] * drafts, "target"]]
        last = tuner.steps[-1][1][0] + 1  # its own token may be beyond the limit
        assert sources(completion)[:-last] == made[:-last]
        assert "eagle" in made


def test_n_grams_are_told_from_the_learned_drafter() -> None:
    """One after the other: what the first of a group says, the others say, too."""
    target = make_target("qwen2")
    config = {"threshold": 9, "strategies": [{"drafter": "ngram", "depth": 4, "verify": 4}], "tuner": {"name": "fixed"}}
    engine = make_engine(target, random_drafter(target), SpeculationConfig.model_validate(config), slots=1)
    completions = engine.generate(make_requests(6, 48, group=3, seed=1), GREEDY)
    found = Counter(source for completion in completions for source in sources(completion))
    assert set(found) == {"target", "ngram"}
    statistics = engine.take_statistics()
    assert statistics.ngram_drafted_by_position == statistics.drafted_by_position
    assert statistics.ngram_accepted_by_position == statistics.accepted_by_position
    assert found["ngram"] <= sum(statistics.accepted_by_position) <= found["ngram"] + DEEPEST * len(completions)


def test_the_learned_drafter_s_drafts_are_no_n_grams_and_plain_decoding_is_the_target_s() -> None:
    target = make_target("qwen2")
    requests = make_requests(4, 48, seed=3)
    engine = make_engine(target, random_drafter(target), chains(3))
    engine.generate(requests, GREEDY)
    statistics = engine.take_statistics()
    assert sum(statistics.ngram_drafted_by_position) == 0 < statistics.drafted_by_position[0]
    plain = make_engine(target).generate(requests, GREEDY)
    assert {source for completion in plain for source in sources(completion)} == {"target"}
