"""A Ray cluster that is away for a while."""

from pathlib import Path
from typing import Any

import pytest

from engine.cluster.worker_group import worker_group
from engine.config import RunConfig, parse
from engine.errors import AttemptError, ConfigError, LongtailError
from engine.events import EventWriter, RunStarted
from engine.run import _events, has_begun

JOINS = {"cluster": {"ray_address": "127.0.0.1:6379", "workers": 2, "device": "cpu"}}


@pytest.fixture
def config() -> RunConfig:
    return parse(JOINS)


def start(config: RunConfig, out: Path) -> None:
    with worker_group(config, out / "checkpoints", has_begun(out)):
        pass


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
    machine = {"Alive": True, "Resources": {"CPU": 1.0}}
    answers: dict[str, Any] = {"init": None, "cluster_resources": {}, "nodes": [machine]}
    for name, found in answers.items():
        monkeypatch.setattr(f"ray.{name}", lambda *_, found=found, **__: found)
    monkeypatch.setattr("engine.cluster.placement._reserved", lambda *_: [])
    with pytest.raises(kind, match=r"had no room for 2 within"):
        start(config, tmp_path)


@pytest.mark.parametrize(("starts", "kind"), [(0, ConfigError), (1, AttemptError)])
def test_a_run_that_has_started_once_waits_for_its_cluster_though_it_has_no_checkpoint_yet(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts: int, kind: type[LongtailError]
) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("it does not answer")

    monkeypatch.setattr("ray.init", init)
    with EventWriter(tmp_path / "events.jsonl") as events:
        for _ in range(starts):
            events.write(RunStarted(first_step=0, steps=9, workers=2, model_parameters=1, device="cpu", packages={}))
        with pytest.raises(kind, match="no Ray cluster to work with"):
            list(_events(config, "", tmp_path, resume=True, written=events))


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
    machine = {"Alive": True, "Resources": {"CPU": 8.0}}
    answers: dict[str, Any] = {"init": None, "shutdown": None, "cluster_resources": {"CPU": 8.0}, "nodes": [machine]}
    for name, found in answers.items():
        monkeypatch.setattr(f"ray.{name}", lambda *_, found=found, **__: found)
    needs: list[dict[str, float]] = []

    def reserved(*given: Any) -> list[Any]:
        needs.append(given[3])
        return []

    monkeypatch.setattr("engine.cluster.placement._reserved", reserved)
    with EventWriter(tmp_path / "events.jsonl") as events:
        for device in before:
            events.write(RunStarted(first_step=0, steps=9, workers=2, model_parameters=1, device=device, packages={}))
        with pytest.raises(LongtailError, match="had no room for 2 within"):
            list(_events(config, "", tmp_path, resume=True, written=events))
    assert needs[0] == asked
