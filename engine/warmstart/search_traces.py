"""Search traces that teach ``tiny`` to look for solutions: a depth-first search in random order that finishes each chain well.

Three numbers have few first moves, so their traces are short; four have hundreds of chains, so theirs run long. That gives
sampled responses the long tail of real reasoning models. Some traces take a quick look only: a bad habit, and one early decision,
which reinforcement learning can unlearn.
"""

from collections.abc import Iterator
from random import Random

from engine.tasks.countdown import Equation, Problem, generate, moves

Chain = tuple[Equation, ...]
HASTE = 0.5
QUICK_LOOK = "~"
GIVE_UP = "?"


def search(problem: Problem, rng: Random) -> Iterator[Chain]:
    """Distinct chains in the order the search tries them: random moves, and the last one as close to the target as can be."""
    yield from _expand(problem.numbers, problem.target, (), rng)


def _expand(numbers: tuple[int, ...], target: int, done: Chain, rng: Random) -> Iterator[Chain]:
    options = list(moves(numbers))
    if len(numbers) == 2:
        if options:
            last = min(options, key=lambda option: abs(option[0].result - target))[0]
            yield (*done, last)
        return
    rng.shuffle(options)
    for equation, left in options:
        yield from _expand(left, target, (*done, equation), rng)


def trace(problem: Problem, rng: Random, longest: int) -> str | None:
    """The response to ``problem``, or None if the search does not find a solution within ``longest`` characters.

    A share of ``HASTE`` announces a quick look and gives up at its first dead end.
    """
    hasty = rng.random() < HASTE
    lines = [QUICK_LOOK] if hasty else []
    length = 0
    for chain in search(problem, rng):
        solved = chain[-1].result == problem.target
        lines.append(",".join(map(str, chain)) + ("!" if solved else "x"))
        length += len(lines[-1]) + 1
        if length > longest:
            return None
        if solved:
            return "\n".join(lines)
        if hasty:
            return "\n".join([*lines, GIVE_UP])
    return None


def examples(seed: int, four_numbers: float, longest: int) -> Iterator[tuple[str, str]]:
    """An endless stream of (prompt, response) pairs for supervised training."""
    rng = Random(seed)
    while True:
        problem = generate(rng, four_numbers)
        response = trace(problem, rng, longest)
        if response is not None:
            yield problem.prompt, response
