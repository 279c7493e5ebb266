"""A Ray cluster that is away for a while."""

from pathlib import Path
from typing import Any

import pytest

from engine.cluster.worker_group import worker_group
from engine.config import RunConfig, parse
from engine.errors import AttemptError, ConfigError, LongtailError

JOINS = {"cluster": {"ray_address": "127.0.0.1:6379", "workers": 2, "device": "cpu"}}


@pytest.fixture
def config() -> RunConfig:
    return parse(JOINS)


def start(config: RunConfig, folder: Path) -> None:
    with worker_group(config, folder):
        pass


@pytest.mark.parametrize(("checkpoint", "kind"), [(False, ConfigError), (True, AttemptError)])
def test_a_run_that_resumes_waits_for_its_cluster(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: bool, kind: type[LongtailError]
) -> None:
    def init(**_: Any) -> None:
        raise ConnectionError("it does not answer")

    if checkpoint:
        (tmp_path / "step_000003").mkdir()
    monkeypatch.setattr("ray.init", init)
    with pytest.raises(kind, match=r"no Ray cluster to work with at 127\.0\.0\.1:6379 \(it does not answer\)"):
        start(config, tmp_path)


@pytest.mark.parametrize(("checkpoint", "kind"), [(False, ConfigError), (True, AttemptError)])
def test_a_run_that_resumes_waits_for_room(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: bool, kind: type[LongtailError]
) -> None:
    if checkpoint:
        (tmp_path / "step_000003").mkdir()
    machine = {"Alive": True, "Resources": {"CPU": 1.0}}
    answers: dict[str, Any] = {"init": None, "cluster_resources": {}, "nodes": [machine]}
    for name, found in answers.items():
        monkeypatch.setattr(f"ray.{name}", lambda *_, found=found, **__: found)
    monkeypatch.setattr("engine.cluster.placement._reserved", lambda *_: [])
    with pytest.raises(kind, match=r"had no room for 2 within"):
        start(config, tmp_path)
