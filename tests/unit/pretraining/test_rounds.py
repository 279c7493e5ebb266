"""Rounds of pretraining with workers that take no time: what is saved, and how long it lasts."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any, cast

import pytest

from engine.checkpoint import storage
from engine.checkpoint.verification import newest
from engine.cluster.worker_group import WorkerGroup
from engine.config import RunConfig, parse
from engine.drafter.held_out_evaluation import Judged
from engine.errors import ConfigError, StoppedError
from engine.events import AnyEvent, DrafterPretrained, Log, StartingUp
from engine.models.folder import TINY
from engine.models.load import load_tokenizer
from engine.pretraining.pretraining_round import PretrainingRound
from engine.pretraining.rounds import APART, Pretraining, pretrains
from engine.pretraining.schedule import PretrainingSchedule
from engine.rollout.interface import Request, Sampling
from engine.tasks.given_responses import GivenResponses
from engine.tasks.task import Task


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Group:
    """In place of a WorkerGroup: writes for ``writing`` seconds, but the first responses for as long as it is told if ``least`` seconds
    are over, then trains for as long as it is told."""

    vocabulary, loss = 100, 1.0

    def __init__(self, clock: Clock, writing: float = 1.0, workers: int = 1, least: float = 0.0) -> None:
        self._clock, self._writing, self._workers, self._least = clock, writing, workers, least
        self.rates: list[float] = []
        self.averaged: list[float] = []
        self.expected = Counter[int]()

    def pretrain(
        self, _: int, requests: Sequence[Request], sampling: Sampling, schedule: PretrainingSchedule | None, seconds: float
    ) -> list[PretrainingRound]:
        assert sampling.max_new_tokens
        writing = self._writing if requests else 0.0
        if schedule is None:
            writing, seconds = max(self._least, min(writing, seconds)), 0.0
        else:
            self.rates.append(schedule.rate(schedule.spent + writing + 0.01))
        self._clock.now += max(writing, seconds)
        alarms = (("engine_restarted", "SGLang died"),) if requests else ()
        return [PretrainingRound(len(requests), 9, writing, int(schedule is not None), 9, self.loss, alarms)] * self._workers

    def average_pretrained(self, microsteps: Sequence[int]) -> None:
        assert microsteps == [1] * self._workers
        self.averaged.append(self._clock.now)

    def begin_pretraining(self, expected: Counter[int]) -> None:
        self.expected = expected

    def publish_pretrained(self, _: Sequence[int]) -> tuple[int, Judged]:
        return len(self.rates), Judged(len(self.rates) / 100)

    def write_pretraining(self, folder: Path) -> None:
        folder.mkdir()

    def load_pretraining(self, *_: object) -> None: ...

    def end_pretraining(self) -> None: ...


class Prompts:
    def prompts(self, _: int, count: int) -> list[Any]:
        return [type("Prompt", (), {"tokens": (1, place)})() for place in range(count)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


def config(minutes: float) -> RunConfig:
    return parse({"algorithm": {"steps": 0}, "drafter": {"path": None, "pretrain_minutes": minutes}, "cluster": {"workers": 1}})


def rounds(minutes: float, group: Group, out: Path, resume: bool = False) -> list[AnyEvent]:
    pretraining = Pretraining(config(minutes), cast(WorkerGroup, group), cast(Task, Prompts()), out)
    return list(pretraining.run(out / "stop", resume))


def phases(events: Sequence[AnyEvent]) -> list[str]:
    return [event.phase for event in events if isinstance(event, StartingUp)]


def version_saved(out: Path) -> int:
    found = newest(out / "pretraining")
    assert found
    state: dict[str, Any] = storage.read(found.path / "state.json")
    return int(state["drafter_version"])


def test_what_it_is_at_until_its_first_round_is_over_is_told_as_that_begins(clock: Clock, tmp_path: Path) -> None:
    """The first responses may take hours, in which nothing else is told."""
    events: list[tuple[float, AnyEvent]] = []
    pretraining = Pretraining(config(1), cast(WorkerGroup, Group(clock, writing=20.0)), cast(Task, Prompts()), tmp_path)
    for event in pretraining.run(tmp_path / "stop", resume=False):
        events.append((clock.now, event))
    told = [(now, event.phase) for now, event in events if isinstance(event, StartingUp)]
    assert told == [(0.0, "first_responses"), (20.0, "first_round")]
    assert phases(rounds(1, Group(clock), tmp_path, resume=True)) == [], "all rounds were over"


@pytest.mark.parametrize("seconds", [75, 85, 95])
def test_what_wrote_slower_than_ever_at_the_end_trains_all_the_same(clock: Clock, tmp_path: Path, seconds: float) -> None:
    """The machine was busy, or SGLang died: writing has taken all that was left, and there was no time to train beside it."""

    class Slowing(Group):
        def pretrain(self, number: int, requests: Sequence[Request], *more: Any) -> list[PretrainingRound]:
            self._writing = 30.0 if number == 4 else 10.0
            shares = super().pretrain(number, requests, *more)
            schedule, told = more[1], more[2]
            trained = int(schedule is not None and shares[0].writing < told)
            return [replace(share, microsteps=trained) for share in shares]

    *_, last = rounds(seconds / 60, Slowing(clock), tmp_path)
    assert isinstance(last, DrafterPretrained)
    assert last.done
    assert clock.now <= seconds + 30
    assert version_saved(tmp_path) == last.drafter_version


@pytest.mark.parametrize("falls_from", [None, 20.0])
def test_what_writes_far_slower_after_a_resume_has_time_to_train_on_it(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, falls_from: float | None
) -> None:
    """As new processes do: the drafter has had one round of a few seconds, and was to be published without another step."""

    class Starting(Group):
        def pretrain(self, number: int, requests: Sequence[Request], *more: Any) -> list[PretrainingRound]:
            shares = super().pretrain(number, requests, *more)
            return [replace(share, microsteps=int(share.writing < more[2])) for share in shares]

    class Stopping(Group):
        def publish_pretrained(self, microsteps: Sequence[int]) -> tuple[int, Judged]:
            (tmp_path / "stop").touch()
            return super().publish_pretrained(microsteps)

    with pytest.raises(StoppedError):
        rounds(1, Stopping(clock), tmp_path)
    if falls_from:
        usual = storage.read
        monkeypatch.setattr(storage, "read", lambda path: usual(path) | {"schedule": usual(path)["schedule"] | {"falls_from": falls_from}})
    events = rounds(1, again := Starting(clock, writing=80.0), tmp_path, resume=True)
    (last,) = (event for event in events if isinstance(event, DrafterPretrained))
    assert (last.round, last.done, last.microsteps) == (2, True, 1)
    assert last.seconds == pytest.approx(6 + 80 + 40)
    assert last.end == pytest.approx(last.seconds)
    assert again.rates[-1] > 0.5


def test_the_first_responses_are_kept(clock: Clock, tmp_path: Path) -> None:
    """They may have taken hours, and a stop need not wait for the first round."""
    (tmp_path / "stop").touch()
    with pytest.raises(StoppedError):
        rounds(1, Group(clock, writing=20.0), tmp_path)
    assert clock.now == 20
    assert version_saved(tmp_path) == 0
    events = rounds(1, again := Group(clock, writing=20.0), tmp_path, resume=True)
    assert phases(events) == ["first_round"]
    assert isinstance(events[1], DrafterPretrained)
    assert events[1].round == 1
    assert clock.now == pytest.approx(60, abs=6)
    assert again.rates


def test_what_writes_slowly_ends_in_time_to_train(clock: Clock, tmp_path: Path) -> None:
    """All responses would take longer than what was given: some of them are enough to begin with."""
    group = Group(clock, writing=90.0)
    *_, last = rounds(1, group, tmp_path)
    assert isinstance(last, DrafterPretrained)
    assert (last.done, last.limit) == (True, 60.0)
    assert clock.now <= 66.0
    assert max(group.rates) > 0.5


def test_what_has_no_response_in_time_can_train_all_the_same(clock: Clock, tmp_path: Path) -> None:
    """The first responses take longer than all that was given: at the end of its time the learning rate is 0."""
    group = Group(clock, writing=90.0, least=90.0)
    _, first, *_, last = rounds(1, group, tmp_path)
    assert isinstance(first, Log)
    assert (first.level, first.message) == ("warning", "SGLang died")
    assert isinstance(last, DrafterPretrained)
    assert last.done
    assert last.limit == 180.0
    assert max(group.rates) > 0.5


def test_a_round_without_a_step_has_no_loss(clock: Clock, tmp_path: Path) -> None:
    """0 would be the best there is."""

    class Resting(Group):
        def pretrain(self, number: int, *more: Any) -> list[PretrainingRound]:
            return [replace(share, microsteps=int(number == 1)) for share in super().pretrain(number, *more)]

    first, *later = (event.loss for event in rounds(1, Resting(clock), tmp_path) if isinstance(event, DrafterPretrained))
    assert (first, set(later)) == (1.0, {None})


def test_a_drafter_that_diverges_is_not_published_and_says_what_to_do(clock: Clock, tmp_path: Path) -> None:
    group = Group(clock)
    group.loss = nan
    with pytest.raises(ConfigError, match=r"pretrain_learning_rate \(--learning-rate\): with 0\.0005 the drafter's loss is nan"):
        rounds(1, group, tmp_path)
    assert len(group.rates) == 1
    assert version_saved(tmp_path) == 0


def test_it_goes_on_for_as_long_as_is_wanted_now(clock: Clock, tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    with pytest.raises(StoppedError):
        rounds(10, Group(clock), tmp_path)
    for minutes in (30, 5):
        (tmp_path / "stop").touch()
        with pytest.raises(StoppedError):
            rounds(minutes, Group(clock), tmp_path, resume=True)
    events = rounds(20, Group(clock), tmp_path, resume=True)
    assert {event.limit for event in events if isinstance(event, DrafterPretrained)} == {1200.0}
    assert clock.now == pytest.approx(1200, abs=10), "what was over before counts"


def test_what_goes_on_is_not_measured_against_responses_that_are_gone(clock: Clock, tmp_path: Path) -> None:
    """They may have been easier: the new ones' acceptance rises from round to round, though it stays below theirs."""

    class Judging(Group):
        def publish_pretrained(self, microsteps: Sequence[int]) -> tuple[int, Judged]:
            version, judged = super().publish_pretrained(microsteps)
            return version, Judged(judged.accepted / 4 + easier)

    easier = 0.9
    (tmp_path / "stop").touch()
    with pytest.raises(StoppedError):
        rounds(5, Judging(clock, writing=10.0), tmp_path)
    easier = 0.0
    last = [event for event in rounds(5, Judging(clock, writing=10.0), tmp_path, resume=True) if isinstance(event, DrafterPretrained)][-1]
    assert (last.done, last.end) == (True, 300.0), "it gained to the end, and did not end early"


@pytest.mark.parametrize(
    ("path", "steps", "expected"), [("auto", 1, False), ("auto", 0, True), ("builtin", 1, True), (None, 1, True)], ids=str
)
def test_a_drafter_that_was_found_is_trained_before_the_first_step_only_if_there_are_no_steps(
    path: str | None, steps: int, expected: bool
) -> None:
    """``tiny`` has a built-in one: a run of 0 steps that did not train it would do nothing."""
    drafter = {"path": path, "pretrain_minutes": 1}
    assert pretrains(parse({"algorithm": {"steps": steps, "prompts_per_step": 4}, "drafter": drafter})) == expected


def test_copies_are_averaged_while_they_are_trained(clock: Clock, tmp_path: Path) -> None:
    """And what is trained in a round is half of what is written in it, in time, but for the last one."""
    group = Group(clock, writing=60.0, workers=2)
    told = [event for event in rounds(8, group, tmp_path) if isinstance(event, DrafterPretrained)]
    gaps = [later - earlier for earlier, later in pairwise(group.averaged)]
    assert set(gaps) <= {APART, 60.0, 60.0 + APART, 30 % APART, 30 % APART + 60.0}
    assert gaps.count(APART) > 12
    lengths = [later.seconds - earlier.seconds for earlier, later in pairwise(told)]
    assert lengths[:-1] == pytest.approx([90.0] * (len(lengths) - 1))


@pytest.mark.parametrize(("temperature", "siblings"), [(1.0, 2), (0.0, 1)])
@pytest.mark.parametrize("batch", [1, 2, 64])
def test_a_round_has_prompts_enough_to_train_on_and_to_judge_by(tmp_path: Path, batch: int, temperature: float, siblings: int) -> None:
    """The engine runs so many at a time: one prompt alone would be held out, and nothing left. At temperature 0 a prompt has one response:
    others would be the same."""
    rollout = config(1).rollout.model_copy(update={"max_batch": batch, "temperature": temperature})
    pretraining = Pretraining(config(1).model_copy(update={"rollout": rollout}), cast(WorkerGroup, None), cast(Task, Prompts()), tmp_path)
    requests = pretraining._requests(0)
    assert len({request.group for request in requests}) == max(8, batch // siblings)
    assert len(requests) == siblings * max(8, batch // siblings)


class Reading(Group):
    """Says which rows it was given, and keeps all or ``drops`` some."""

    def __init__(self, clock: Clock, drops: bool = False, workers: int = 1) -> None:
        super().__init__(clock, workers=workers)
        self._drops, self.read = drops, list[int]()

    def pretrain(self, number: int, requests: Sequence[Request], *more: Any) -> list[PretrainingRound]:
        self.read += [request.id for request in requests]
        shares = super().pretrain(number, requests, *more)
        return [replace(share, dropped=self._drops) for share in shares]


def read(group: Group, out: Path, rows: int, resume: bool = False, workers: int = 1) -> list[DrafterPretrained]:
    return [event for event in told(group, out, rows, resume, workers) if isinstance(event, DrafterPretrained)]


def told(group: Group, out: Path, rows: int, resume: bool = False, workers: int = 1, longest: int = 64) -> list[AnyEvent]:
    out.mkdir(exist_ok=True)
    file = out / "given.jsonl"
    file.write_text("".join(f'{{"prompt": "{row}+1=", "response": "{row + 1}"}}\n' for row in range(rows)))
    settings = config(1).model_copy(update={"cluster": config(1).cluster.model_copy(update={"workers": workers})})
    source = GivenResponses(file, load_tokenizer(TINY), longest, seed=0)
    return list(Pretraining(settings, cast(WorkerGroup, group), source, out).run(out / "stop", resume))


def test_given_rows_are_read_once_if_there_is_room_for_them(clock: Clock, tmp_path: Path) -> None:
    group = Reading(clock)
    *_, last = read(group, tmp_path, rows=150)
    assert group.read == list(range(150))
    assert (last.done, last.responses) == (True, 150)
    assert clock.now == pytest.approx(60, abs=6), "all of the time that is left is for training"


@pytest.mark.parametrize(("longest", "cut"), [(64, ""), (6, "responses cut where they have 6 tokens with their prompts: 91 (")])
def test_how_many_given_responses_are_cut_is_told(clock: Clock, tmp_path: Path, longest: int, cut: str) -> None:
    """Of ``9+1=`` there is room for ``10`` and no end, of ``99+1=`` for one digit."""
    logs = [event.message for event in told(Reading(clock), tmp_path, rows=100, longest=longest) if isinstance(event, Log)]
    (begun,) = (message for message in logs if "drafts are of" in message)
    assert (cut in begun, "--max-new-tokens" in begun) == (True, bool(cut))


def test_the_vocabulary_is_chosen_from_all_rows_that_are_given(clock: Clock, tmp_path: Path) -> None:
    """The first 64 that a worker reads may be of one kind, and lack the tokens of all others."""
    read(group := Reading(clock), tmp_path, rows=150)
    assert group.expected == GivenResponses(tmp_path / "given.jsonl", load_tokenizer(TINY), 64, seed=0).token_counts
    assert group.expected.total() > 64 * 6


def test_given_rows_that_memory_has_no_room_for_are_read_again_and_are_not_new(clock: Clock, tmp_path: Path) -> None:
    group = Reading(clock, drops=True)
    *_, last = read(group, tmp_path, rows=150)
    assert group.read == list(range(len(group.read)))
    assert len(group.read) > 300
    assert last.responses == 150


@pytest.mark.parametrize(("workers", "anew"), [(2, False), (3, False), (1, True)])
def test_given_rows_that_a_worker_took_along_are_read_again(clock: Clock, tmp_path: Path, workers: int, anew: bool) -> None:
    """The run goes on with as many workers as the machine has now."""
    (tmp_path / "stop").touch()
    first, again = Reading(clock, workers=2), Reading(clock, workers=workers)
    with pytest.raises(StoppedError):
        read(first, tmp_path, rows=400, workers=2)
    read(again, tmp_path, rows=400, resume=True, workers=workers)
    assert 0 < len(first.read) < 400
    assert again.read == list(range(0 if anew else len(first.read), 400))


def test_given_rows_that_an_earlier_version_read_in_the_order_of_their_file_are_read_again(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are other rows in the order of now."""
    (tmp_path / "stop").touch()
    with pytest.raises(StoppedError):
        read(Reading(clock), tmp_path, rows=400)
    usual = storage.read

    def of_before(path: Path) -> Any:
        return {name: value for name, value in usual(path).items() if name != "shuffled"}

    monkeypatch.setattr(storage, "read", of_before)
    again = Reading(clock)
    *_, last = read(again, tmp_path, rows=400, resume=True)
    assert again.read == list(range(400))
    assert last.responses == 400
