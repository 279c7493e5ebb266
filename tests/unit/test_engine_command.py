"""The engine's own command."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.__main__ import main


@pytest.fixture
def signals() -> Iterator[None]:
    """As they were after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_end_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    monkeypatch.setattr("engine.run.run", lambda *_, **__: os.kill(os.getpid(), number))
    (tmp_path / "config.yaml").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "out")])
    assert ended.value.code == 128 + number
    assert "--resume" in capsys.readouterr().err
    os.kill(os.getpid(), number)  # once more, which disturbs nothing


def test_a_fault_of_ours_is_told_apart_from_a_process_that_ray_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engine.run.run", lambda *_, **__: os.environ["NOTHING"])
    (tmp_path / "config.yaml").write_text("{}")
    assert main(["run", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "out")]) == 70
    assert "KeyError: 'NOTHING'" in capsys.readouterr().err
