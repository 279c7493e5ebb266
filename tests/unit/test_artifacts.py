"""The model cards of drafter and policy, from a run's events."""

import errno
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest
import yaml

from engine import artifacts
from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig, parse
from engine.drafter.model_card import DrafterCard
from engine.drafter.zipped import write_zip
from engine.errors import CheckpointError, TakenOverError
from engine.events import DrafterPretrained, DrafterTrained, EventWriter, RunStarted, Speculation, StepFinished


def write(out: Path, accepted: list[list[int]], first: int = 0) -> None:
    """A step for each of ``accepted``, of ten drafts at each depth; every other one publishes a drafter."""
    events = EventWriter(out / "events.jsonl")
    for step, counts in enumerate(accepted, first):
        events.write(Speculation(step=step, arms=[], drafted_by_position=[10] * len(counts) + [0], accepted_by_position=[*counts, 0]))
        events.write(
            DrafterTrained(
                step=step,
                drafter_version=step // 2 + 1,
                published=step % 2 == 0,
                reason=f"reason {step}",
                microsteps=5,
                tokens=9,
                loss=0.5,
                held_out_before=0.4,
                held_out_after=0.5,
            )
        )
        events.write(StepFinished(step=step, seconds=1, phases={}, metrics={"accept_length": 1.0 + sum(counts) / 10}))
    events.close()


def pretrained(accept_length: float) -> DrafterPretrained:
    numbers = {"responses": 64, "response_tokens": 640, "microsteps": 8, "tokens": 640, "vocabulary": 64, "drafter_version": 1}
    shares = dict.fromkeys(("loss", "held_out", "top1", "top3"), 0.5)
    return DrafterPretrained(round=1, seconds=60, limit=60, end=60, done=True, accept_length=accept_length, **numbers, **shares)


def test_the_card_tells_of_the_last_quarter_and_of_every_version(tmp_path: Path) -> None:
    write(tmp_path, [[1]] * 6 + [[8, 4], [6, 4, 2]])
    card = artifacts._card(RunConfig(), tmp_path)
    assert (card.base_model, card.task, card.version) == ("tiny", "countdown", 4)
    assert card.accept_length == 2.2
    assert card.acceptance == (0.7, 0.4, 0.2)
    assert [line.partition(":")[0] for line in card.history] == [
        f"version {version}, after RL step {2 * version - 2}" for version in (1, 2, 3, 4)
    ]


def test_a_drafter_of_given_responses_is_not_said_to_be_of_a_task(tmp_path: Path) -> None:
    given = tmp_path / "mine.jsonl"
    events = EventWriter(tmp_path / "events.jsonl")
    events.write(pretrained(accept_length=4.5))
    events.close()
    config = {"drafter": {"pretrain_minutes": 1, "pretrain_responses": str(given)}}
    card = artifacts._card(parse(config | {"algorithm": {"steps": 0}}), tmp_path)
    assert card.task == "responses of mine.jsonl"
    assert "64 responses of mine.jsonl" in card.history[0]
    card = artifacts._card(parse(config | {"algorithm": {"steps": 8}}), tmp_path)
    assert card.task == "countdown", "it went on learning from that"


def test_a_card_names_the_drafter_that_the_run_began_with(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "model.safetensors").write_bytes(b"weights")
    write(tmp_path, [[1]])
    card = artifacts._card(parse({"drafter": {"path": str(given)}}), tmp_path)
    assert card.history[0] == f"version 0: given, of SHA-256 `{sha256(b'weights').hexdigest()}`"
    assert len(card.history) == 2


def test_what_a_lost_attempt_did_is_not_told_twice(tmp_path: Path) -> None:
    """It was killed after six steps, and the next one went on after a checkpoint of the first two."""
    write(tmp_path, [[1]] * 6)
    events = EventWriter(tmp_path / "events.jsonl")
    events.write(RunStarted(first_step=2, steps=8, workers=1, model_parameters=1, device="cpu", packages={}))
    events.close()
    write(tmp_path, [[8]] * 2, first=2)
    card = artifacts._card(RunConfig(), tmp_path)
    assert (card.version, card.accept_length, card.acceptance) == (2, 1.8, (0.8,))
    assert [line.partition(":")[0] for line in card.history] == ["version 1, after RL step 0", "version 2, after RL step 2"]


def test_a_run_without_steps(tmp_path: Path) -> None:
    write(tmp_path, [])
    card = artifacts._card(RunConfig(), tmp_path)
    assert (card.accept_length, card.acceptance, card.history) == (None, (), ())


def test_the_policys_card_tells_what_came_of_it(tmp_path: Path) -> None:
    events = EventWriter(tmp_path / "events.jsonl")
    for step in (0, 1, 2, 2):  # the last one was done again
        metrics = {"accept_length": 1.0, "reward_mean": step / 4} | ({"eval/reward": 0.6, "eval/pass_at_4": 0.9} if step == 2 else {})
        events.write(StepFinished(step=step, seconds=1, phases={}, metrics=metrics))
    events.close()
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "model.safetensors").write_bytes(b"weights")
    artifacts._describe_policy(policy, RunConfig.model_validate({"model": {"path": "a: [#1]"}}), tmp_path)
    _, front, card = (policy / "README.md").read_text().split("---\n")
    assert yaml.safe_load(front)["base_model"] == "a: [#1]"
    assert "| steps | 3 |" in card
    assert "| mean reward, first 1 and last 1 steps | 0.000, 0.500 |" in card
    assert "| reward on validation prompts | 0.600 |" in card
    assert f"| SHA-256 of model.safetensors | `{sha256(b'weights').hexdigest()}` |" in card


def test_a_zip_says_what_is_in_it(tmp_path: Path) -> None:
    card = DrafterCard("tiny", "countdown", 4, 2.2)
    for name in ("drafter", "policy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    drafter, policy = (artifacts._zipped(tmp_path / name, tmp_path, RunConfig(), card) for name in ("drafter", "policy"))
    assert policy.metadata == {"base_model": "tiny", "task": "countdown", "steps": "100"}
    assert drafter.metadata == policy.metadata | {"recipe": "eagle", "drafter_version": "4", "accept_length": "2.200"}


class Exporter:
    """Workers that leave a policy of the text ``content``, and ``drafter`` if there is one; ``interrupted`` is called while they do."""

    drafter: str | None = None

    def __init__(self, content: str, interrupted: Callable[[], object] = lambda: None) -> None:
        self.content, self.interrupted = content, interrupted

    def export(self, folder: Path, _: DrafterCard) -> list[Path]:
        (folder / "policy").mkdir(parents=True)
        (folder / "policy" / "model.safetensors").write_text(self.content)
        self.interrupted()
        if self.drafter is None:
            return [folder / "policy"]
        (folder / "drafter").mkdir()
        (folder / "drafter" / "model.safetensors").write_text(self.drafter)
        return [folder / "policy", folder / "drafter"]


def export(out: Path, workers: Exporter, events: EventWriter) -> list[str]:
    config = RunConfig.model_validate({"algorithm": {"steps": 1}})
    return [saved.path for saved in artifacts.export(config, cast(WorkerGroup, workers), out, events.fence)]


def test_who_was_succeeded_while_it_exported_replaces_nothing(tmp_path: Path) -> None:
    events = EventWriter(tmp_path / "events.jsonl")
    events.write(StepFinished(step=0, seconds=1, phases={}, metrics={"accept_length": 1.0, "reward_mean": 0.5}))
    successor: list[EventWriter] = []

    def succeed() -> None:
        successor.append(EventWriter(tmp_path / "events.jsonl", take_over=True))
        assert export(tmp_path, Exporter("new"), successor[0]) == ["artifacts/policy.zip"]

    with pytest.raises(FileNotFoundError):  # what it had made aside was swept
        export(tmp_path, Exporter("old", succeed), events)
    with pytest.raises(TakenOverError):
        export(tmp_path, Exporter("old"), events)
    place = tmp_path / "artifacts"
    assert (place / "policy" / "model.safetensors").read_text() == "new"
    assert sorted(path.name for path in place.iterdir()) == ["policy", "policy.zip"]
    assert export(tmp_path, Exporter("newer"), successor[0]) == ["artifacts/policy.zip"]
    assert (place / "policy" / "model.safetensors").read_text() == "newer"
    assert {path.name for path in tmp_path.iterdir()} == {"artifacts", "events.jsonl"}


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(artifacts, "write_zip", full)
    events = EventWriter(tmp_path / "events.jsonl")
    events.write(StepFinished(step=0, seconds=1, phases={}, metrics={"accept_length": 1.0, "reward_mean": 0.5}))
    with pytest.raises(CheckpointError, match="No space left on device"):
        export(tmp_path, Exporter("new"), events)
    assert {path.name for path in tmp_path.iterdir()} == {"artifacts", "events.jsonl"}, "what was made aside gives its room back"


def test_the_drafter_is_there_though_the_disk_has_no_room_for_the_policys_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_for_a_policy(folder: Path, path: Path) -> str:
        if folder.name == "policy":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_zip(folder, path)

    monkeypatch.setattr(artifacts, "write_zip", full_for_a_policy)
    events = EventWriter(tmp_path / "events.jsonl")
    events.write(StepFinished(step=0, seconds=1, phases={}, metrics={"accept_length": 1.0, "reward_mean": 0.5}))
    workers = Exporter("new")
    workers.drafter = "drafts"
    with pytest.raises(CheckpointError, match="No space left on device"):
        export(tmp_path, workers, events)
    assert sorted(path.name for path in (tmp_path / "artifacts").iterdir()) == ["drafter", "drafter.zip"]
    assert list(tmp_path.glob(".artifacts.*")) == []
    monkeypatch.setattr(artifacts, "write_zip", write_zip)
    assert export(tmp_path, workers, events) == ["artifacts/drafter.zip", "artifacts/policy.zip"]
    assert {path.name for path in tmp_path.iterdir()} == {"artifacts", "events.jsonl"}
