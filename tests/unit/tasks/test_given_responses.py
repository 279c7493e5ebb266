"""Prompts and responses from a file."""

import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizer_calls import read_characters
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Replace
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from engine.config.task import PromptsConfig
from engine.drafter.data_buffer import HELD_OUT_EVERY, group_of
from engine.errors import DataError
from engine.models.folder import TINY
from engine.models.load import load_tokenizer
from engine.tasks.given_responses import GivenResponses
from engine.tasks.registry import build_task

TOKENIZER = load_tokenizer(TINY)


def given(folder: Path, *rows: dict[str, Any], longest: int = 64, seed: int = 0) -> GivenResponses:
    file = folder / "given.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return GivenResponses(file, TOKENIZER, longest, seed)


def test_rows_become_requests_that_are_answered_and_begin_anew_past_the_end(tmp_path: Path) -> None:
    source = given(tmp_path, {"prompt": "1+1=", "response": "2"}, {"question": "2+2=", "answer": "4"})
    first, second = source.requests(0, 2)
    answered = {TOKENIZER.decode(list(request.prompt)): request.begun.tokens for request in (first, second)}
    assert answered == {
        question: (*TOKENIZER(answer).input_ids, TOKENIZER.eos_token_id) for question, answer in (("1+1=", "2"), ("2+2=", "4"))
    }
    (third,) = source.requests(1, 1)
    assert third.prompt == second.prompt, "the next round goes on where the one before ended"
    assert [request.prompt for request in source.requests(3, 2)] == [second.prompt], "none behind the end"
    assert [request.prompt for request in source.requests(4, 2)] == [first.prompt, second.prompt]
    assert len({request.id for place in range(0, 6, 2) for request in source.requests(place, 2)}) == 6


def test_the_first_rows_are_of_every_kind_that_the_file_has(tmp_path: Path) -> None:
    """They judge all that come later, and were only those at the head of the file when rows were read in its order."""
    rows = [{"prompt": f"{row}{'+' if row < 150 else '*'}1=", "response": "2"} for row in range(300)]

    def order(seed: int) -> list[str]:
        source = given(tmp_path, *rows, seed=seed)
        requests = [*source.requests(0, 64), *source.requests(64, 236)]
        return [str(TOKENIZER.decode(list(request.prompt))) for request in requests]

    found = order(seed=1)
    assert sorted(found) == sorted(row["prompt"] for row in rows), "each once"
    assert 16 < sum("*" in prompt for prompt in found[:64]) < 48
    assert order(seed=1) == found, "what is resumed goes on in the same order"
    assert order(seed=2) != found


def test_the_tokens_of_all_rows_are_counted_but_for_those_that_are_held_out(tmp_path: Path) -> None:
    rows = [{"prompt": f"{row}+1=", "response": str(row + 1)} for row in range(600)]
    source = given(tmp_path, *rows, {"prompt": "1" * 70, "response": "left out"})
    requests = source.requests(0, 600)
    taught = [request for request in requests if group_of(torch.tensor(request.prompt)) % HELD_OUT_EVERY]
    assert 0 < len(taught) < 600
    assert source.token_counts == Counter(token for each in taught for token in (*each.prompt, *each.begun.tokens))


def test_prompts_alone_may_have_the_columns_of_those_with_responses(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    rows: list[dict[str, Any]] = [{"prompt": "1+1="}, {"question": "1+1="}]
    for row in [*rows, *(rows[0] | {"question": nothing} for nothing in ("", None))]:
        file.write_text(json.dumps(row) + "\n")
        assert build_task(PromptsConfig(path=file), 0, TOKENIZER).prompts(0, 1)[0].text == "1+1="
    with pytest.raises(DataError, match="no column 'text'; the columns are prompt, question"):
        build_task(PromptsConfig(path=file, question="text"), 0, TOKENIZER).prompts(0, 1)
    file.write_text('{"text": "1+1="}\n')
    with pytest.raises(DataError, match="line 1: no column 'question' or 'prompt'; the columns are text"):
        build_task(PromptsConfig(path=file), 0, TOKENIZER).prompts(0, 1)


def test_what_is_too_long_is_cut_or_left_out(tmp_path: Path) -> None:
    source = given(tmp_path, {"prompt": "1" * 70, "response": "2"}, {"prompt": "1" * 60, "response": "2" * 60})
    (request,) = source.requests(0, 1)
    assert (len(request.prompt), len(request.begun.tokens)) == (60, 4)
    assert (len(source), source.left_out, source.cut) == (1, 1, 1)
    with pytest.raises(DataError, match="within 10 tokens"):
        given(tmp_path, {"prompt": "1" * 70, "response": "2"}, longest=10)


def test_of_a_long_response_no_more_is_tokenised_than_there_is_room_for(tmp_path: Path) -> None:
    """256 of 100,000 tokens took 3 GB, and all of their time again in every round."""
    tracemalloc.start()
    try:
        source = given(tmp_path, *({"prompt": str(row), "response": "1+" * 50_000} for row in range(20)), longest=10)
        requests = source.requests(0, 20)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    assert all(TOKENIZER.decode(list(request.begun.tokens)) == ("1+" * 5)[: 10 - len(request.prompt)] for request in requests)


def word_tokenizer(**tokens: str) -> PreTrainedTokenizerFast:
    """Spaces may be one token together, or none."""
    words = Tokenizer(WordLevel({"a": 0, "<eos>": 1}, "a"))
    words.pre_tokenizer = WhitespaceSplit()
    words.normalizer = Replace("\u200b", " ")
    return PreTrainedTokenizerFast(tokenizer_object=words, **tokens)  # type: ignore[no-untyped-call]


def test_rows_whose_prompts_are_of_no_use_are_left_out_and_are_not_tokenised_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_characters(monkeypatch)
    file = tmp_path / "given.jsonl"
    prompts = (f"a{' ' * 10_000}a", "\u200b", "a " * 20, "a", "a a")
    file.write_text("".join(json.dumps({"prompt": prompt, "response": "a"}) + "\n" for prompt in prompts))
    source = GivenResponses(file, word_tokenizer(), 10, seed=0)
    assert (len(source), source.left_out) == (2, 3)
    assert {request.prompt for request in source.requests(0, 2)} == {(0,), (0, 0)}
    assert max(read) <= 160


def test_of_a_file_with_fewer_rows_than_workers_need_all_have_some(tmp_path: Path) -> None:
    source = given(tmp_path, {"prompt": "1+1=", "response": "2"}, {"prompt": "2+2=", "response": "4"})
    assert [request.id for request in source.requests(0, 8)] == list(range(8))


def test_a_response_that_was_cut_does_not_end(tmp_path: Path) -> None:
    """Many spaces are no token, so that a text is cut though there is room for more."""
    tokenizer = word_tokenizer(eos_token="<eos>")
    file = tmp_path / "given.jsonl"
    file.write_text("".join(json.dumps({"prompt": "a", "response": f"a{' ' * spaces}a"}) + "\n" for spaces in (50, 200)))
    source = GivenResponses(file, tokenizer, 10, seed=0)
    assert {request.begun.tokens for request in source.requests(0, 2)} == {(0, 0, 1), (0,)}
    assert source.cut == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"response": "2"}, "line 1: no column 'prompt' or 'question'; the columns are response"),
        ({"prompt": "1", "response": 7}, "line 1: column 'response' must be a text that is not empty, got the value 7"),
        ({"prompt": "smile \ud83d", "response": "2"}, r"line 1: column 'prompt' has half of a character \('\\ud83d'\)"),
    ],
)
def test_a_row_that_lacks_something_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        given(tmp_path, row)
