"""The virtual rollouts by which parts of the tuner are judged."""

from pathlib import Path

import pytest

from engine.bench import __main__ as command
from engine.bench import ablation, virtual_rollouts
from engine.bench.ablation import PARTS, ablated, switched_off
from engine.bench.real import training_file
from engine.bench.virtual_rollouts import Case, Rollouts, VirtualMachine
from engine.errors import DataError
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner import goodput
from engine.speculation.tuner.cost_table import CostTable, Grid

CHEAP = CostTable(Grid((1, 32), (1, 25), (64,), [[[0.010], [0.016]], [[0.020], [0.200]]]), Grid((1,), (1,), (64,), [[[0.0005]]]))


def test_a_part_is_switched_off_and_on_again() -> None:
    usual = [getattr(owner, name) for owner, name, _ in PARTS.values()]
    for part, (owner, name, instead) in PARTS.items():
        with switched_off(part):
            assert getattr(owner, name) is instead
    assert [getattr(owner, name) for owner, name, _ in PARTS.values()] == usual


def test_the_same_seed_gives_the_same_seconds_and_drafts_that_are_accepted_save_some() -> None:
    one, again = (Rollouts(CHEAP, 3).seconds(Case(2), 0.6) for _ in range(2))
    assert one == again
    plain = Rollouts(CHEAP, 3, speculates=False).seconds(Case(2), 0.6)
    assert one < 0.8 * plain


def test_without_what_the_last_steps_cost_more_is_drafted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuner to whom they cost what no draft brings is as slow as plain decoding."""
    monkeypatch.setattr(goodput, "LAST", 1e9)
    plain = Rollouts(CHEAP, 3, speculates=False).seconds(Case(2), 0.6)
    assert Rollouts(CHEAP, 3).seconds(Case(2), 0.6) == pytest.approx(plain, rel=0.1)
    with switched_off("last steps"):
        assert Rollouts(CHEAP, 3).seconds(Case(2), 0.6) < 0.8 * plain


def test_every_part_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation, "RATES", (0.6,))
    found = ablated(CHEAP, {"one": Case(1), "long_tail": Case(3, None)}, seeds=1)
    assert set(found["without"]) == set(PARTS)
    assert found["plain"]["one"] > 20
    assert {*found["without"]["trials"]} == {"one", "long_tail", "all", "error"}


def test_a_step_takes_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 24 drafts costs 0.25 ms beside 10 ms for none, and each of four levels 0.5 ms."""
    machine, context, chain = VirtualMachine(CHEAP, 0), Context(1, 64.0), Strategy("eagle", 4, 1, 4)
    for name in ("TABLE_ERROR", "DRIFT", "NOISE", "HICCUPS"):
        monkeypatch.setattr(virtual_rollouts, name, 0.0)
    assert machine.seconds(chain, context) / machine.seconds(OFF, context) == pytest.approx((10 + 1 + 4 * 0.5) / 10)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["graphs", "--ablate"], "--ablate is for tuner alone"),
        (["tuner", "--ablate", "--seeds", "3"], "--seeds is for e2e alone"),
        (["graphs", "--data", "train.jsonl"], "--data is for draft_vocabulary, real, sglang alone"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main([*arguments, "--model", "nosuch"])
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--quick"], ["--model", "tiny"], ["--json", "report.json"]])
def test_the_report_measures_nothing_and_takes_no_options(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "write", lambda: None)
    with pytest.raises(SystemExit):
        command.main(["report", *options])
    assert "report takes no options" in capsys.readouterr().err


def test_runs_are_kept_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "_measured", lambda _: {})
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        command.main(["e2e", "--runs", str(tmp_path / "file")])
    assert "--runs: " in capsys.readouterr().err


@pytest.mark.parametrize("data", ["", "nosuch.jsonl"])
def test_data_to_train_on_must_be_a_file(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="give GSM8K's training file"):
        training_file("real", Path(data))
