import os
import resource
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from models_for_tests import byte_tokenizer

from engine.config.task import MathConfig
from engine.errors import DataError
from engine.tasks import json_lines
from engine.tasks.dataset import HEAD_ROWS, head, read
from engine.tasks.json_lines import LONGEST_LINE
from engine.tasks.registry import build_task, check_rows

GOOD = '{"question": "1+1?", "answer": "2"}\n'


def written(tmp_path: Path, text: str | bytes) -> MathConfig:
    path = tmp_path / "data.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return MathConfig(path=path)


def test_reads_jsonl_with_numbers_as_answers_and_blank_lines(tmp_path: Path) -> None:
    config = written(tmp_path, b"\xef\xbb\xbf" + GOOD.encode() + b'\n{"question": "2+2?", "answer": 4, "level": 1}\n')
    rows = [(row.place.rpartition(": ")[2], row.text("question"), row.text_or_number("answer")) for row in read(config.path)]
    assert rows == [("line 1", "1+1?", "2"), ("line 3", "2+2?", "4")]


def test_reads_parquet_with_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"problem": ["1+1?", "1/2?"], "solution": [2.0, 0.5]}), path)
    rows = [(row.place.rpartition(": ")[2], row.text("problem"), row.text_or_number("solution")) for row in read(path)]
    assert rows == [("row 1", "1+1?", "2.0"), ("row 2", "1/2?", "0.5")]
    check_rows(MathConfig(path=path, question="problem", answer="solution"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the dataset is empty"),
        ("\n \n", "the dataset is empty"),
        (GOOD + "{question: 1}\n", r"line 2: not readable as JSON: Expecting property name"),
        (GOOD.encode() + b'{"question": "\xff"}\n', "line 2: not readable as JSON: 'utf-8' codec can't decode"),
        (GOOD.encode("utf-16"), "line 1: the file is in UTF-16; save it as UTF-8"),
        (GOOD + '{"question": "a\0b"}\n', "line 2: not readable as JSON: Invalid control character"),
        ("[" * 100_000, "line 1: not readable as JSON"),
        (GOOD + "[1, 2]\n", "line 2: must be a JSON object, got a list"),
        ('{"problem": "1+1?", "answer": "2"}', "line 1: no column 'question'; the columns are answer, problem"),
        (GOOD + '{"question": "1+1?"}', "line 2: no column 'answer'; the columns are question"),
        ("{}", "line 1: no column 'question'; the columns are none"),
        ('{"question": 11, "answer": "2"}', "line 1: column 'question' must be a text that is not empty, got the value 11"),
        ('{"question": null, "answer": "2"}', "column 'question' must be a text that is not empty, got null"),
        ('{"question": " ", "answer": "2"}', "column 'question' must be a text that is not empty, got an empty text"),
        ('{"question": "1+1?", "answer": ""}', "column 'answer' must be a text or a number, got an empty text"),
        ('{"question": "1+1?", "answer": [2]}', "column 'answer' must be a text or a number, got a list"),
        ('{"question": "1+1?", "answer": true}', "column 'answer' must be a text or a number, got true or false"),
    ],
)
def test_faults_name_the_file_and_the_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    config = written(tmp_path, text)
    with pytest.raises(DataError, match=f"data.jsonl: {message}|data.jsonl: line 1: {message}"):
        check_rows(config)


def test_path_that_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("question,answer\n")
    (tmp_path / "data.parquet").write_bytes(b"PAR0")
    cases: list[tuple[str, str]] = [
        ("nothing.jsonl", "no such file"),
        ("", "is a folder; name a JSONL or parquet file"),
        ("data.csv", r"unknown kind of file '.csv'; use .jsonl or .parquet"),
        ("data.parquet", "not readable as parquet"),
    ]
    for name, message in cases:
        with pytest.raises(DataError, match=message):
            check_rows(MathConfig(path=tmp_path / name))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"q": ["1+1?"], "answer": ["2"]}, "row 1: no column 'question'; the columns are answer, q"),
        ({"question": ["1+1?", None], "answer": ["2", "3"]}, "row 2: column 'question' must be a text that is not empty, got null"),
        ({"question": [], "answer": []}, "the dataset is empty"),
    ],
)
def test_parquet_faults(tmp_path: Path, columns: dict[str, list[Any]], message: str) -> None:
    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(DataError, match=message):
        check_rows(MathConfig(path=path))


def test_columns_with_a_dictionary_for_each_group_of_rows(tmp_path: Path) -> None:
    """As those of pandas' categories: Arrow's files have one dictionary only."""
    path = tmp_path / "data.parquet"
    questions = [f"{index % 3}+{index // 4}?" for index in range(12)]
    schema = pyarrow.schema({"question": (texts := pyarrow.dictionary(pyarrow.int32(), pyarrow.string())), "choices": pyarrow.list_(texts)})
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for group in (questions[:4], questions[4:8], questions[8:]):
            writer.write_table(pyarrow.table({"question": group, "choices": [[each, "no"] for each in group]}, schema))
    for rows in (read(path), head(path)):
        assert [(row.text("question"), row.texts("choices", 2, 2)) for row in rows] == [(each, [each, "no"]) for each in questions]


@pytest.mark.parametrize("place", ["full", "missing"])
def test_no_room_to_unpack_a_file_is_not_its_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"question": ["1+1?" * 10_000], "answer": ["2"]}), path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("none" if place == "missing" else "")))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]) if place == "full" else before)
    try:
        with pytest.raises(DataError, match=r"data\.parquet: no room to unpack it in .*; TMPDIR names the folder"):
            read(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_rows_are_found_in_any_order_and_threads(tmp_path: Path) -> None:
    config = written(tmp_path, "\n".join(f'{{"question": "{index}"}}' + "\n" * (index % 3) for index in range(9)))
    parquet = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"question": [str(index) for index in range(9)]}), parquet, row_group_size=4)
    for rows, last in ((read(config.path), "line 16"), (read(parquet), "row 9")):
        texts = [row.text("question") for row in rows]
        assert texts == [str(index) for index in range(len(rows))] == [rows[index].text("question") for index in range(9)]
        assert [row.text("question") for row in rows[6:]] == ["6", "7", "8"]
        assert rows[-1].text("question") == "8"
        assert rows[-1].place == rows[8].place == list(rows)[8].place
        assert rows[8].place.endswith(last)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda index, rows=rows: rows[index].text("question"), [*range(9)] * 9)) == texts * 9


def test_checking_looks_at_the_beginning_only_and_the_job_at_all(tmp_path: Path) -> None:
    config = written(tmp_path, GOOD * HEAD_ROWS + "{broken\n")
    check_rows(config)
    assert len(list(head(config.path))) == HEAD_ROWS
    with pytest.raises(DataError, match=f"line {HEAD_ROWS + 1}: not readable as JSON"):
        build_task(config, 0, byte_tokenizer()).check_lengths(1000)


@pytest.mark.parametrize("content", [b"", b"[" * (LONGEST_LINE + 1), GOOD.encode()])
def test_a_large_file_is_no_matter_of_memory(tmp_path: Path, content: bytes) -> None:
    """A gigabyte without an end of line, which takes no room on the disk."""
    config = written(tmp_path, content)
    with config.path.open("r+b") as file:
        file.truncate(2**30)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"line \d: longer than 4 MiB; a JSONL file has one row in each line"):
        check_rows(config)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 * 2**20


def long_rows(tmp_path: Path, length: int, rows: int) -> MathConfig:
    """Parquet that takes little room on the disk."""
    path, text = tmp_path / "data.parquet", pyarrow.repeat("x" * length, rows)
    pyarrow.parquet.write_table(pyarrow.table({"question": text, "answer": text}), path, compression="zstd", use_dictionary=False)
    return MathConfig(path=path)


def test_of_long_rows_of_parquet_few_are_looked_at(tmp_path: Path) -> None:
    assert 40 < len(list(head(long_rows(tmp_path, 100_000, 200).path))) < 80
    with pytest.raises(DataError, match=r"data\.parquet: has rows of 10 MiB; 4 MiB is the most"):
        check_rows(long_rows(tmp_path, 5 * 2**20, 2))


def test_rows_do_not_stay_in_memory(tmp_path: Path) -> None:
    row = '{"question": "1+1?", "answer": "2", "rest": "%s"}\n' % ("x" * 10_000)
    config = written(tmp_path, row * 1000)
    task = build_task(config, 0, byte_tokenizer())
    tracemalloc.start()
    rows = read(config.path)
    assert len(rows) == 1000
    assert task.prompts(0, 1000)[0].text.startswith("1+1?")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < len(row) * 1000


@pytest.mark.parametrize("change", ["rewritten", "of the same size", "truncated", "replaced", "gone", "a folder"])
def test_a_file_that_is_changed_while_it_is_in_use_is_told(tmp_path: Path, change: str) -> None:
    config = written(tmp_path, GOOD * 9)
    rows, task = read(config.path), build_task(config, 0, byte_tokenizer())
    written(tmp_path, GOOD * 9 + GOOD)
    assert (len(list(rows)), rows[8].text("answer")) == (9, "2"), "the same rows, and more"
    if change in ("gone", "a folder"):
        config.path.unlink()
        if change == "a folder":
            config.path.mkdir()
    elif change == "truncated":
        os.truncate(config.path, 5 * len(GOOD))
    elif change == "replaced":
        (tmp_path / "other.jsonl").write_text("")
        (tmp_path / "other.jsonl").replace(config.path)
    else:
        config.path.write_text(GOOD.replace("1", "2" if change == "of the same size" else "11") * 9)
    for look in (lambda: rows[8], lambda: list(rows), lambda: task.prompts(0, 9), lambda: task.check_lengths(99)):
        with pytest.raises(DataError, match=r"data\.jsonl: was changed while it was in use"):
            look()


def test_a_file_that_becomes_one_endless_line_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = read(written(tmp_path, GOOD * 9).path)
    monkeypatch.setattr(json_lines, "LONGEST_ROW", 2**10)
    path = written(tmp_path, "").path
    os.truncate(path, 2**26)
    tracemalloc.start()
    with pytest.raises(DataError, match="was changed while it was in use"):
        rows[8]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = written(tmp_path, GOOD)
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root, who may read all
    with pytest.raises(DataError, match="may not be read by the user that this runs as"):
        check_rows(config)
