"""The benchmark of checking drafts measures every width, type and law; how long a test's take says nothing."""

import json

import pytest

from engine.bench import __main__ as command
from engine.bench import few_rows


def test_all_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(few_rows, "MODELS", ("tiny",))
    assert command.main(["few_rows", "--quick", "--model", "tiny"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix("RESULT "))
    assert set(found) == {"facts", "passes", "sampling"}
    types = found["passes"]["tiny"]["types"]
    assert found["passes"]["tiny"]["auto"] in types
    assert list(types) == ["float32", "float16", "bfloat16"]
    for measured in types.values():
        assert [len(measured["ms"]), len(measured["against_one"])] == [len(few_rows.WIDTHS), len(few_rows.WIDTHS) - 1]
        assert min(measured["ms"]) > 0
    assert list(found["sampling"]) == list(few_rows.LAWS)
    for shapes in found["sampling"].values():
        assert {shape: list(sizes) for shape, sizes in shapes.items()} == {shape: ["49152", "151936"] for shape in few_rows.SPREADS}


def test_another_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["few_rows", "--model", "tiny"]) == 2
    assert "--model: few_rows measures small, smollm2-135m, not tiny" in capsys.readouterr().err
