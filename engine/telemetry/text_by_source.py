"""A response's text, cut where another source made its tokens."""

from collections.abc import Callable, Sequence
from itertools import accumulate, groupby, pairwise

from engine.events import Piece, Source
from engine.rollout.interface import SOURCES, Completion

MOST = 2000
"""Pieces that are told of; the tokens after them are one whose source is not known."""
INCOMPLETE, LONGEST = "\N{REPLACEMENT CHARACTER}", 4
"""What the bytes of a character are decoded to before the last one is there, and their most."""

Decode = Callable[[Sequence[int]], str]


def text_by_source(completion: Completion, text: str, decode: Decode) -> list[Piece] | None:
    """The pieces of ``text``, which ``decode`` made of the completion's tokens; None if the engine does not know what made them."""
    if not completion.sources:
        return None
    runs = _runs(completion)
    places = _places(completion.tokens, list(accumulate(count for _, count in runs)), decode)
    cuts = [0, *accumulate((min(place, len(text)) for place in places[:-1]), max), len(text)]
    return [Piece(source, count, end - start) for (source, count), (start, end) in zip(runs, pairwise(cuts), strict=True)]


def _runs(completion: Completion) -> list[tuple[Source, int]]:
    """(source, tokens) in order."""
    unknown = len(completion.tokens) - len(completion.sources)
    codes = bytes([SOURCES.index("unknown")]) * unknown + completion.sources
    runs = [(SOURCES[code], len(list(run))) for code, run in groupby(codes)]
    return runs if len(runs) <= MOST else [*runs[: MOST - 1], ("unknown", sum(count for _, count in runs[MOST - 1 :]))]


def _places(tokens: Sequence[int], ends: Sequence[int], decode: Decode) -> list[int]:
    """For each of ``ends``: how many characters so many tokens are. Each run is decoded with the one before it, for what a token is may
    depend on its neighbour; a character whose bytes are parted is the latter run's."""
    places: list[int] = []
    before = read = place = 0
    for end in ends:
        whole, known = decode(tokens[before:end]), len(decode(tokens[before:read]))
        places.append(place + len(whole.removesuffix(INCOMPLETE)) - known)
        if not whole.endswith(INCOMPLETE) or end - read > LONGEST:
            place += len(whole) - known
            before, read = read, end
    return places
