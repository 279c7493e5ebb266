"""A drafter trained before the steps of a run, or by a command, in real processes."""

import json
import os
import subprocess
from pathlib import Path

from engine_processes import ALONE, Config, finish, kill_once_there, lengths, run, start
from forked_python.interpreter import ENGINE, forked_python
from safetensors.torch import load_file
from sizes import ALL, only_with_all

from engine.events import AnyEvent, ArtifactSaved, DrafterPretrained, Speculation, read


def rounds(events: list[AnyEvent]) -> list[DrafterPretrained]:
    return [event for event in events if isinstance(event, DrafterPretrained)]


def test_a_drafter_is_pretrained_killed_stopped_and_goes_on(config: Config, plain: Path, tmp_path: Path) -> None:
    """Before the steps of a run, which then drafts with it, and generates what the plain run does."""
    pretrained = {"path": None, "pretrain_minutes": 0.6, "draft_vocabulary": 24}
    changed = config | {"drafter": pretrained} | ({} if ALL else ALONE)
    kill_once_there(changed, tmp_path, "pretraining/step_000002")
    before = rounds(list(read(tmp_path / "events.jsonl")))
    (tmp_path / "stop").touch()
    code, errors = finish(start(changed, tmp_path, "--resume"))
    assert (code, "while the drafter was being pretrained" in errors) == (75, True), errors[-2000:]
    after = rounds(list(read(tmp_path / "events.jsonl")))[len(before) :]
    assert len(after) == 1
    assert after[0].seconds > before[0].seconds, "time spent before the kill counts"
    assert after[0].responses > before[0].responses, "what was written before the kill counts"
    events = run(changed, tmp_path, "--resume")
    told = rounds(events)
    assert [event.round for event in told] == sorted(event.round for event in told)
    assert told[-1].done
    assert {event.vocabulary for event in told} == {24}
    assert 36 <= told[-1].limit < (44 if ALL else 200)
    assert -8 < told[-1].seconds - told[-1].limit < (8 if ALL else 60), "a busy machine is late to end"
    assert lengths(events) == lengths(list(read(plain / "events.jsonl"))), "drafts change no response"
    assert any(event.drafted_by_position[0] for event in events if isinstance(event, Speculation))
    weights = load_file(tmp_path / "artifacts/drafter/model.safetensors")
    assert len(weights["d2t"]) == 24


@only_with_all
def test_a_drafter_is_made_of_given_responses(tmp_path: Path) -> None:
    """By the command, which knows of its own folder only by a relative path."""
    rows = [{"prompt": f"{n}+{n}=", "response": f"{2 * n}, and {n} more is {3 * n}"} for n in range(40)]
    (tmp_path / "given.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [forked_python(*ENGINE), "-m", "engine.drafter", "train", "--model", "tiny", "--responses", "given.jsonl"]
    command += ["--minutes", "0.2", "--workers", "1", "--draft-vocabulary", "0", "--out", "drafter"]
    environment = os.environ | {"LONGTAIL_HOME": str(tmp_path / "home")}
    first, again = (
        finish(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True))
        for _ in range(2)
    )
    assert first[0] == 0, first[1][-2000:]
    assert (again[0], "there is a drafter in drafter" in again[1]) == (2, True)
    events = list(read(tmp_path / "drafter/training/events.jsonl"))
    assert [event.name for event in events if isinstance(event, ArtifactSaved)] == ["drafter.zip"]
    assert rounds(events)[-1].top1 > rounds(events)[0].top1 - 0.05
    assert rounds(events)[-1].microsteps > 0
    card = (tmp_path / "drafter/README.md").read_text()
    assert "expected of chains of 4" in card
    assert "before RL step 0" in card
