"""A Ray cluster that is away for a while."""

from pathlib import Path
from typing import Any

import pytest

from engine.cluster.worker_group import worker_group
from engine.config import RunConfig, parse
from engine.errors import AttemptError, ConfigError, LongtailError, WorkerLostError
from engine.events import AnyEvent, EventWriter, Log, RunStarted, StartingUp
from engine.run import _events, has_begun

JOINS = {"cluster": {"ray_address": "127.0.0.1:6379", "workers": 2, "device": "cpu"}}


@pytest.fixture
def config() -> RunConfig:
    return parse(JOINS)


def start(config: RunConfig, out: Path) -> None:
    with worker_group(config, out / "checkpoints", has_begun(out)):
        pass


def attempt(config: RunConfig, out: Path) -> None:
    """What ``run`` does once its checks are done."""
    with EventWriter(out / "events.jsonl") as events:
        for event in _events(config, "", out, resume=True, written=events):
            events.write(event)


def started(device: str) -> RunStarted:
    return RunStarted(first_step=0, steps=9, workers=2, model_parameters=1, device=device, packages={})


def there(monkeypatch: pytest.MonkeyPatch, resources: dict[str, float]) -> None:
    """A cluster of one machine."""
    machine = {"Alive": True, "Resources": resources}
    answers: dict[str, Any] = {"init": None, "shutdown": None, "cluster_resources": resources, "nodes": [machine]}
    for name, found in answers.items():
        monkeypatch.setattr(f"ray.{name}", lambda *_, found=found, **__: found)


def without_room(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """What is asked for, for each worker, and not to be had."""
    needs: list[dict[str, float]] = []

    def reserved(*given: Any) -> list[Any]:
        needs.append(given[3])
        return []

    monkeypatch.setattr("engine.cluster.placement._reserved", reserved)
    return needs


KINDS = pytest.mark.parametrize(("saved", "kind"), [("", ConfigError), ("checkpoints", AttemptError), ("pretraining", AttemptError)])


@KINDS
def test_a_run_that_resumes_waits_for_its_cluster(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: str, kind: type[LongtailError]
) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("it does not answer")

    if saved:
        (tmp_path / saved / "step_000003").mkdir(parents=True)
    monkeypatch.setattr("ray.init", init)
    with pytest.raises(kind, match=r"no Ray cluster to work with at 127\.0\.0\.1:6379 \(it does not answer\)"):
        start(config, tmp_path)


@KINDS
def test_a_run_that_resumes_waits_for_room(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: str, kind: type[LongtailError]
) -> None:
    if saved:
        (tmp_path / saved / "step_000003").mkdir(parents=True)
    there(monkeypatch, {"CPU": 1.0})
    without_room(monkeypatch)
    with pytest.raises(kind, match=r"had no room for 2 within"):
        start(config, tmp_path)


STARTING = StartingUp(phase="starting_workers")
REFUSED = Log(level="error", code=ConfigError.code, message="no Ray cluster to work with")
LOST = Log(level="error", code=WorkerLostError.code, message="a worker died")


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ([], ConfigError),
        ([STARTING], AttemptError),  # and was ended by Ray, which lets nobody tell anything
        ([STARTING, LOST], AttemptError),
        ([STARTING, REFUSED], ConfigError),
        ([STARTING, REFUSED, STARTING], AttemptError),
        ([STARTING, LOST, STARTING, REFUSED], AttemptError),
        ([started("cpu")], AttemptError),
        ([started("cpu"), REFUSED], AttemptError),
    ],
)
def test_a_run_that_has_begun_to_start_once_waits_for_its_cluster_though_it_has_no_checkpoint_yet(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[AnyEvent], kind: type[LongtailError]
) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("it does not answer")

    monkeypatch.setattr("ray.init", init)
    with EventWriter(tmp_path / "events.jsonl") as events:
        for event in told:
            events.write(event)
    with pytest.raises(kind, match="no Ray cluster to work with"):
        attempt(config, tmp_path)


@pytest.mark.parametrize(
    ("before", "cluster", "asked"),
    [
        (["cpu", "NVIDIA H200"], {}, {"CPU": 1.0, "GPU": 1.0}),
        (["NVIDIA H200", "cpu"], {}, {"CPU": 1.0}),
        (["NVIDIA H200"], {"device": "cpu"}, {"CPU": 1.0}),
        (["NVIDIA H200"], {"ray_address": None}, {"CPU": 1.0}),
        ([], {}, {"CPU": 1.0}),
    ],
)
def test_a_run_that_was_on_gpus_waits_for_those_of_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: list[str], cluster: dict[str, Any], asked: dict[str, float]
) -> None:
    """Its nodes with GPUs join after its head."""
    config = parse({"cluster": {**JOINS["cluster"], "device": "auto", **cluster}})
    (tmp_path / "checkpoints" / "step_000003").mkdir(parents=True)
    there(monkeypatch, {"CPU": 8.0})
    needs = without_room(monkeypatch)
    with EventWriter(tmp_path / "events.jsonl") as events:
        for device in before:
            events.write(started(device))
    with pytest.raises(LongtailError, match="had no room for 2 within"):
        attempt(config, tmp_path)
    assert needs[0] == asked


@pytest.mark.parametrize(
    ("resources", "asked"), [({"CPU": 8.0, "GPU": 2.0}, {"CPU": 1.0, "GPU": 1.0}), ({"CPU": 8.0}, {"CPU": 1.0})], ids=["gpus", "cpus"]
)
def test_a_run_that_ray_ended_while_its_workers_started_waits_for_the_gpus_that_these_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resources: dict[str, float], asked: dict[str, float]
) -> None:
    def end(*_: Any) -> None:
        raise SystemExit(1)

    config = parse({"cluster": {**JOINS["cluster"], "device": "auto"}})
    there(monkeypatch, resources)
    monkeypatch.setattr("engine.cluster.placement._reserved", lambda *_: ["here", "here"])
    monkeypatch.setattr("engine.cluster.worker_group.meeting_point", end)
    with pytest.raises(SystemExit):
        attempt(config, tmp_path)
    there(monkeypatch, {"CPU": 8.0})
    needs = without_room(monkeypatch)
    with pytest.raises(AttemptError, match="had no room for 2 within"):
        attempt(config, tmp_path)
    assert needs[0] == asked
