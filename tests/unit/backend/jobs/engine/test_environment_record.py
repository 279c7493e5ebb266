"""What an attempt ran in is kept, and no secret with it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.database import Database
from backend.jobs.engine.environment_record import attempt_record, engine_variables, environment_record, variables
from backend.jobs.engine.gpu_names import gpu_variables, gpus_here, offered_gpus
from backend.jobs.engine.processes import boot
from backend.services.runs.attempts import Outcome, claim, record_process, settle
from backend.services.runs.git_state import git_state
from longtail.schemas.attempts import Environment, GitState, Gpu

SMI = """#!/bin/sh
echo "0, GPU-aaaa, NVIDIA H200, 143771, 550.90.07"
echo "1, GPU-bbbb, NVIDIA GB10, [N/A], 580.1"
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git has a minute for its answer."""
    monkeypatch.setattr("backend.services.runs.git_state.SECONDS", 60.0)


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_the_state_of_a_folder(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    assert git_state(tmp_path / "nowhere") is None
    git(tmp_path, "init", "-q", "-b", "idea")
    assert git_state(tmp_path) is None, "no commit yet"
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_state(tmp_path) == GitState(commit=commit, branch="idea", dirty=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "new").write_text("2")
    assert git_state(tmp_path / "folder") == GitState(commit=commit, branch="idea", dirty=True)
    git(tmp_path, "checkout", "-q", "--detach")
    state = git_state(tmp_path)
    assert state is not None
    assert state.branch is None


def test_no_program_that_a_repository_names_is_started(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/started; false")
    assert git_state(tmp_path) is not None
    assert not (tmp_path / "started").exists()


def test_secrets_are_starred_out() -> None:
    given = {
        "HF_TOKEN": "hf_abcdefghijklmnopqrst",
        "LONGTAIL_DATABASE_URL": "postgresql://u:p@db/x",
        "RAY_REDIS_PASSWORD": "hunter2",
        "SGLANG_API_KEY": "k",
        "LONGTAIL_URL": "https://anna:hunter2@longtail.example/x",
        "RAY_ADDRESS": "ray://10.0.0.1:10001",
        "LONGTAIL_LABELS": '["cpu"]',
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "lt_0123456789abcdef_" + "A" * 43,
        "AWS_SECRET_ACCESS_KEY": "not ours to know of",
        "HOME": "/somewhere",
    }
    kept = variables(given)
    assert kept == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "HF_TOKEN": "***",
        "LONGTAIL_DATABASE_URL": "***",
        "LONGTAIL_LABELS": '["cpu"]',
        "LONGTAIL_URL": "https://***@longtail.example/x",
        "NCCL_DEBUG": "***",
        "RAY_ADDRESS": "ray://10.0.0.1:10001",
        "RAY_REDIS_PASSWORD": "***",
        "SGLANG_API_KEY": "***",
        "TOKENIZERS_PARALLELISM": "false",
    }


def test_an_engine_opens_neither_database_nor_broker_nor_store() -> None:
    ours = {"LONGTAIL_DATABASE_URL", "LONGTAIL_BROKER_URL", "LONGTAIL_ARTIFACT_STORE", "LONGTAIL_TOKEN", "PGPASSWORD"}
    ours |= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "FSSPEC_S3_SECRET"}
    ours |= {"GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_CONNECTION_STRING"}
    kept = {"PATH": "/bin", "HOME": "/srv/x", "LONGTAIL_HOME": "/data", "CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "INFO", "HF_TOKEN": "t"}
    assert engine_variables(kept | dict.fromkeys(ours, "secret")) == kept


def test_gpus_are_those_that_the_driver_tells_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus_here.cache_clear()
    request.addfinalizer(gpus_here.cache_clear)
    assert gpus_here() == []
    assert offered_gpus("auto", {}) == {}
    assert offered_gpus(("0", "MIG-x"), {}) == {"0": f"{boot()}/0", "MIG-x": "MIG-x"}
    gpus_here.cache_clear()
    (tmp_path / "nvidia-smi").write_text(SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    known = Gpu(name="NVIDIA H200", memory_bytes=143771 * 2**20, driver="550.90.07")
    other = Gpu(name="NVIDIA GB10", memory_bytes=0, driver="580.1")
    assert [each.facts for each in gpus_here()] == [known, other]
    assert offered_gpus("auto", {}) == {"0": "GPU-aaaa", "1": "GPU-bbbb"}
    assert offered_gpus("auto", {"CUDA_VISIBLE_DEVICES": "1"}) == {"1": "GPU-bbbb"}
    assert [offered_gpus("auto", {"CUDA_VISIBLE_DEVICES": hidden}) for hidden in ("", "-1")] == [{}, {}]
    assert offered_gpus(("GPU-bbbb",), {}) == {"GPU-bbbb": "GPU-bbbb"}, "the same one by another name"
    assert [attempt_record(own).gpus for own in (["1"], ["GPU-aaaa"], [])] == [[other], [known], []]
    assert attempt_record(["1", "0"]).variables["CUDA_VISIBLE_DEVICES"] == gpu_variables(["1", "0"])["CUDA_VISIBLE_DEVICES"] == "1,0"


def test_this_machine_is_described() -> None:
    here = environment_record()
    assert here.cores >= 1
    assert here.memory_bytes > 2**28
    assert here.packages["fastapi"].count(".") >= 1
    assert here.python.startswith("3.")
    assert here.cpu


def test_attempts_are_shown_with_what_they_ran_in(api: TestClient, database: Database, config: dict[str, Any]) -> None:
    source = {"commit": "a" * 40, "branch": "idea", "dirty": True}
    run = api.post("/api/v1/runs", json={"config": config, "source": source}).json()
    assert run["source"] == source
    address = f"/api/v1/runs/{run['id']}/attempts"
    assert api.get(address).json() == {"items": [], "next_cursor": None}
    for outcome in (Outcome("lost", -9, "killed"), Outcome("failed", 2, "no data")):
        with database.write() as session:
            claimed = claim(session, run["id"], "b" * 16, 60)
            assert claimed is not None
        assert api.get(address).json()["items"][-1]["environment"] is None, "its worker has not told yet"
        with database.write() as session:
            record_process(session, claimed, 1, 1, environment_record().model_dump(mode="json"))
            settle(session, run["id"], claimed.attempt, outcome, 1)
    first, second = api.get(address).json()["items"]
    assert (first["number"], first["state"], first["exit_code"], first["error"]) == (1, "lost", -9, "killed")
    assert (second["number"], second["state"], second["worker_id"]) == (2, "failed", "b" * 16)
    assert Environment.model_validate(second["environment"]) == environment_record()


@pytest.mark.parametrize("source", [{"commit": "main", "dirty": False}, {"commit": "a" * 40}, {"commit": "a" * 40, "dirty": False, "x": 1}])
def test_a_source_is_a_commit(api: TestClient, config: dict[str, Any], source: dict[str, Any]) -> None:
    assert api.post("/api/v1/runs", json={"config": config, "source": source}).status_code == 422
