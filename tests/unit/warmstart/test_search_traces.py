from itertools import islice
from random import Random

from engine.tasks.countdown import Problem, generate, reward
from engine.warmstart.search_traces import GIVE_UP, examples, search, trace


def test_a_trace_that_does_not_give_up_solves_its_problem() -> None:
    rng = Random(0)
    solved = given_up = 0
    for _ in range(500):
        problem = generate(rng, four_numbers=0.3)
        response = trace(problem, rng, longest=1000)
        if response is None:
            continue
        if response.endswith(GIVE_UP):
            given_up += 1
            assert reward(problem, response) == 0.0
        else:
            solved += 1
            assert reward(problem, response) == 1.0
    assert solved > given_up > 50


def test_the_search_tries_no_chain_twice() -> None:
    chains = list(search(Problem((3, 7, 12, 5), 99), Random(1)))
    assert len(chains) == len(set(chains)) > 50


def test_examples_are_long_tailed_and_reproducible() -> None:
    lengths = sorted(len(response) for _, response in islice(examples(3, 0.3, 1000), 1000))
    assert lengths[-1] >= 8 * lengths[500]
    assert list(islice(examples(3, 0.3, 1000), 5)) == list(islice(examples(3, 0.3, 1000), 5))
