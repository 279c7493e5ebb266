"""The pieces of a response, with a real tokenizer where its ways matter."""

from collections.abc import Sequence

import pytest
from transformers import PreTrainedTokenizerBase

from engine.events import Source
from engine.experience.collection import text_of
from engine.models.folder import TINY
from engine.models.load import load_tokenizer
from engine.rollout.interface import SOURCES, Completion, Request
from engine.telemetry.text_by_source import MOST, Decode, text_by_source


def completion(tokens: Sequence[int], sources: Sequence[Source]) -> Completion:
    made = bytes(SOURCES.index(source) for source in sources)
    return Completion(Request(0, 0, (1,)), tuple(tokens), (-1.0,) * len(tokens), "stop", 0, 0, made)


def bytewise(tokens: Sequence[int]) -> str:
    """As byte-level tokenizers do; 0 is a token that is not shown."""
    return bytes(token for token in tokens if token).decode("utf-8", errors="replace")


def cut(text: str, sources: Sequence[Source], decode: Decode = bytewise) -> list[tuple[str, str]]:
    """(source, text) of the pieces, where each byte is a token."""
    found = text_by_source(completion(text.encode(), sources), text, decode)
    assert found is not None
    ends = [sum(piece.characters for piece in found[: index + 1]) for index in range(len(found))]
    assert ends[-1] == len(text)
    return [(piece.source, text[end - piece.characters : end]) for piece, end in zip(found, ends, strict=True)]


def test_neighbours_of_one_source_are_one_piece() -> None:
    sources: list[Source] = ["target", "eagle", "eagle", "target", "ngram", "target"]
    assert cut("abcdef", sources) == [("target", "a"), ("eagle", "bc"), ("target", "d"), ("ngram", "e"), ("target", "f")]


def test_a_character_whose_bytes_are_parted_is_the_later_piece_s() -> None:
    sources: list[Source] = ["target", "target", "eagle", "ngram", "target"]
    assert cut("a\N{EURO SIGN}b", sources) == [("target", "a"), ("eagle", ""), ("ngram", "\N{EURO SIGN}"), ("target", "b")]


def test_bytes_that_are_no_characters_shift_nothing_behind_them() -> None:
    tokens = [*b"ab", *[0x80] * 40, *b"cd"]
    alternating: list[Source] = ["eagle", "target"] * 22
    found = text_by_source(completion(tokens, alternating), bytewise(tokens), bytewise)
    assert found is not None
    assert sum(piece.characters for piece in found) == len(bytewise(tokens))
    assert [piece.characters for piece in found[-2:]] == [2, 1]


def test_tokens_that_are_not_shown_count_without_text() -> None:
    found = text_by_source(completion([*b"ab", 0], ["eagle", "eagle", "target"]), "ab", bytewise)
    assert found == [("eagle", 2, 2), ("target", 1, 0)]


def test_what_earlier_rollouts_made_is_not_known() -> None:
    assert text_by_source(completion(b"abcd", ["eagle", "target"]), "abcd", bytewise) == [
        ("unknown", 2, 2),
        ("eagle", 1, 1),
        ("target", 1, 1),
    ]


def test_an_engine_that_does_not_tell_has_no_pieces() -> None:
    assert text_by_source(completion(b"abcd", []), "abcd", bytewise) is None


def test_there_are_not_more_than_fit_into_an_event() -> None:
    text = "ab" * MOST
    found = text_by_source(completion(text.encode(), ["eagle", "target"] * MOST), text, bytewise)
    assert found is not None
    assert len(found) == MOST
    assert found[-1] == ("unknown", MOST + 1, MOST + 1)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return load_tokenizer(TINY)


def test_pieces_of_real_tokens_join_up_to_the_response(tokenizer: PreTrainedTokenizerBase) -> None:
    tokens = tokenizer("3 + 7 = 10\n25 * 10 = 250\n", add_special_tokens=False)["input_ids"]
    sources: list[Source] = [("eagle", "eagle", "target", "ngram", "target")[index % 5] for index in range(len(tokens))]

    def decode(some: Sequence[int]) -> str:
        return text_of(tokenizer, some)

    found = text_by_source(completion(tokens, sources), decode(tokens), decode)
    assert found is not None
    assert sum(piece.tokens for piece in found) == len(tokens)
    start = end = 0
    for piece in found:
        part = decode(tokens)[start : start + piece.characters]
        assert part.strip() == decode(tokens[end : end + piece.tokens]).strip()
        start, end = start + piece.characters, end + piece.tokens
    assert start == len(decode(tokens))
