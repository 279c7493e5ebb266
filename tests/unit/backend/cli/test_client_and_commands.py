"""The client and the command line against a real server (without a worker)."""

import hashlib
import math
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from typer.testing import CliRunner

from backend import cli
from backend.database import Database
from backend.models import Artifact, Run
from backend.settings import Settings
from longtail import ApiError, Longtail
from longtail.logins import discover


@pytest.fixture
def file(tmp_path: Path, config: dict[str, Any]) -> Path:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def longtail(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def finish(database: Database, run_id: str, state: str, error: str | None = None) -> None:
    with database.write() as session:
        run = session.get_one(Run, run_id)
        run.state, run.error, run.step = state, error, run.steps


def add_artifact(database: Database, settings: Settings, run_id: str, content: bytes, sha256: str) -> None:
    folder = settings.run_folder(run_id)
    folder.mkdir(parents=True)
    (folder / "drafter.zip").write_bytes(content)
    with database.write() as session:
        session.add(Artifact(run_id=run_id, name="drafter.zip", type="drafter", path="drafter.zip", bytes=len(content), sha256=sha256))


class Lossy(Longtail):
    """The first answer to a POST gets lost on its way back."""

    lost = False

    def _request(self, method: str, path: str, **options: Any) -> Any:
        reply = super()._request(method, path, **options)
        if method == "POST" and not self.lost:
            self.lost = True
            raise self._unreachable(httpx.ReadError("reset")) from httpx.ReadError("reset")
        return reply


@pytest.mark.parametrize("action", ["submit", "retry", "clone"])
def test_a_lost_answer_makes_no_second_run(client: Longtail, database: Database, config: dict[str, Any], action: str) -> None:
    runs = []
    if action != "submit":
        runs.append(client.submit(config).id)
        finish(database, runs[0], "failed")
    with Lossy(client.base_url, client.token) as lossy:
        made = lossy.submit(config) if action == "submit" else getattr(lossy, action)(runs[0])
        assert lossy.lost
    assert sorted(run.id for run in client.runs().items) == sorted([*runs, made.id])


def test_every_answer_has_its_type(client: Longtail, config: dict[str, Any]) -> None:
    run = client.submit(config, ["a"], idempotency_key="k")
    assert client.submit(config, ["a"], idempotency_key="k") == run == client.run(run.id)
    assert client.runs(state="queued").items == [run]
    assert client.schema()["title"] == "RunConfig"
    assert {"demo-plain", "demo-tlt", "countdown-100", "gsm8k"} <= {preset.name for preset in client.presets()}
    assert client.validate({"seed": -1}).errors[0].field == "seed"
    assert client.metrics(run.id).series == {}
    assert client.metric_keys(run.id) == []
    for ask in (
        client.lengths,
        client.spans,
        client.decoding,
        client.speculation,
        client.drafters,
        client.samples,
        client.logs,
        client.artifacts,
    ):
        assert ask(run.id) == []
    comparison = client.compare(run.id, [run.id])
    assert (comparison.baseline, [item.run for item in comparison.items], comparison.config_diff) == (run.id, [run], [])
    strangers = [f"{number:016x}" for number in range(150)]
    assert [glance.run_id for glance in client.glances([*strangers, run.id])] == [run.id]
    assert client.glances([]) == []
    assert client.cancel(run.id).finished


def test_an_infinite_limit_gets_there_and_back(client: Longtail, config: dict[str, Any], file: Path) -> None:
    asked = config | {"algorithm": {"max_gradient_norm": math.inf}}
    assert client.validate(asked, asked).errors == []
    run = client.submit(asked)
    file.write_text(yaml.safe_dump(asked))
    code, typed, _ = longtail("submit", str(file))
    assert code == 0
    copy = client.clone(run.id, {"drafter": {"spot": {"trigger": {"drift": math.inf}}}})
    for each in (run, client.run(typed.strip()), copy, client.submit(run.config)):
        assert each.config["algorithm"]["max_gradient_norm"] == "Infinity"
    assert copy.config["drafter"]["spot"]["trigger"]["drift"] == "Infinity"
    assert client.begin("own", {"limit": math.inf}).config == {"limit": "Infinity"}


def test_a_refusal_says_everything(client: Longtail) -> None:
    with pytest.raises(ApiError) as refusal:
        client.submit({"seed": -1, "colour": "red"})
    assert (refusal.value.status, refusal.value.title) == (422, "Invalid request")
    assert [error.field for error in refusal.value.errors] == ["seed", "colour"]
    assert "colour: unknown key" in str(refusal.value)


@pytest.mark.parametrize("name", ["../workers", "..", "?limit=1", "%2e%2e/workers", "a b", "\x00", "é", "", "x" * 300])
def test_what_cannot_be_an_id_leads_nowhere_else(client: Longtail, name: str) -> None:
    with pytest.raises(ApiError) as refusal:
        client.run(name)
    assert (refusal.value.status, refusal.value.title) == (404, "Not found")


def test_nobody_answers(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Longtail(url) as client, pytest.raises(ApiError, match="start one with: longtail up"):
            client.presets()
        with Longtail(url) as client, pytest.raises(ApiError, match="no Longtail server answers"):
            client.download("0" * 16, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_one_key_sent_by_eight_at_once_makes_one_run(client: Longtail, config: dict[str, Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: client.submit(config, idempotency_key="once"), range(8)))
    assert len({run.id for run in runs}) == 1
    assert len(client.runs().items) == 1


def test_the_server_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGTAIL_URL", raising=False)
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path))
    assert discover() == "http://127.0.0.1:8000"
    (tmp_path / "server.json").write_text('{"url": "http://127.0.0.1:4711", "pid": 1}')
    assert discover() == "http://127.0.0.1:4711"
    monkeypatch.setenv("LONGTAIL_URL", "http://elsewhere")
    assert discover() == "http://elsewhere"


def test_a_download_is_whole_or_not_there(
    client: Longtail, database: Database, settings: Settings, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(3 * 2**20)
    good, bad = client.submit(config).id, client.submit(config).id
    add_artifact(database, settings, good, content, hashlib.sha256(content).hexdigest())
    add_artifact(database, settings, bad, content, "0" * 64)
    client.download(client.artifacts(good)[0].id, tmp_path / "good.zip")
    assert (tmp_path / "good.zip").read_bytes() == content
    with pytest.raises(ApiError, match="arrived damaged"):
        client.download(client.artifacts(bad)[0].id, tmp_path / "bad.zip")
    assert not list(tmp_path.glob("bad.zip*"))
    path = f"/api/v1/artifacts/{client.artifacts(good)[0].id}/download"
    assert client.artifact_url(path.split("/")[4]).startswith(f"{client.base_url}{path}?")
    monkeypatch.setenv("LONGTAIL_PUBLIC_URL", "https://longtail.example/")
    assert client.artifact_url(path.split("/")[4]).startswith(f"https://longtail.example{path}?"), "where browsers reach the server"


@pytest.mark.usefixtures("client")
def test_submit_list_cancel(database: Database, file: Path) -> None:
    code, out, _ = longtail("submit", str(file), "--name", "from a shell", "--tag", "x")
    run_id = out.strip()
    assert code == 0
    with database.read() as session:
        run = session.get_one(Run, run_id)
        assert (run.name, run.tags) == ("from a shell", ["x"])
    assert run_id in longtail("runs", "--state", "queued")[1]
    assert longtail("cancel", run_id[:8])[0] == 0
    assert run_id not in longtail("runs", "--state", "queued")[1]
    code, _, err = longtail("cancel", run_id[:8])
    assert (code, err.strip()) == (2, f"longtail: run {run_id} is cancelled: cannot cancel it; what can be done: retry, clone, delete")


@pytest.mark.usefixtures("client")
def test_what_can_be_done_with_a_run_can_be_done_from_a_shell(client: Longtail, file: Path) -> None:
    wishes = ("--priority", "7", "--needs", "gpu:h200", "--start-after", "2030-01-01T00:00:00")
    run_id = longtail("submit", str(file), *wishes)[1].strip()
    run = client.run(run_id)
    assert (run.priority, run.needs, run.start_after is not None) == (7, "gpu:h200", True)
    assert "paused" in longtail("pause", run_id)[1]
    assert "queued" in longtail("resume", run_id)[1]
    longtail("cancel", run_id)
    assert "from the beginning" in longtail("retry", run_id)[1]
    code, out, _ = longtail("clone", run_id, "--name", "copy", "--seed", "5")
    copy = client.run(out.split()[0])
    assert (code, copy.name, copy.seed, copy.parent_id) == (0, "copy", 5, run_id)
    assert longtail("delete", run_id)[0] == 0
    assert run_id not in [run.id for run in client.runs().items]
    assert "cancelled" in longtail("undelete", run_id)[1]
    assert longtail("pause", run_id)[0] == 2


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_ends_with_the_run(client: Longtail, database: Database, config: dict[str, Any], state: str, code: int) -> None:
    run_id = client.submit(config).id
    finish(database, run_id, state, "the [dataset] is empty" if state == "failed" else None)
    got, out, _ = longtail("watch", run_id)
    assert got == code
    assert state in out
    assert ("the [dataset] is empty" in out) == (state == "failed")


def test_download_by_the_command_line(
    client: Longtail, database: Database, settings: Settings, config: dict[str, Any], tmp_path: Path
) -> None:
    run_id = client.submit(config).id
    code, _, err = longtail("download", run_id)
    assert (code, "has no artifact yet" in err) == (2, True)
    add_artifact(database, settings, run_id, b"weights", hashlib.sha256(b"weights").hexdigest())
    assert longtail("download", run_id[:6], "drafter.zip", "--out", str(tmp_path / "out"))[0] == 0
    assert (tmp_path / "out" / "drafter.zip").read_bytes() == b"weights"


def test_upload_by_the_command_line(client: Longtail, config: dict[str, Any], tmp_path: Path) -> None:
    run_id = client.submit(config).id
    (tmp_path / "notes.md").write_text("# one")
    code, out, _ = longtail("upload", run_id[:6], str(tmp_path / "notes.md"))
    assert (code, "notes.md version 1  5 bytes" in out) == (0, True)
    (tmp_path / "notes.md").write_text("# two")
    assert "version 2" in longtail("upload", run_id, str(tmp_path / "notes.md"), "--type", "file")[1]
    assert longtail("download", run_id, "--out", str(tmp_path / "out"))[0] == 0
    assert (tmp_path / "out" / "notes.md").read_text() == "# two", "the latest version"
    (tmp_path / "model.pt").write_bytes(b"\x80\x04N.")
    code, _, err = longtail("upload", run_id, str(tmp_path / "model.pt"))
    assert (code, "pickle" in err) == (2, True)
    code, _, err = longtail("upload", run_id, str(tmp_path / "notes.md"), "--type", "poem")
    assert (code, "drafter, policy, checkpoint, file" in err) == (2, True)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("colour: red", "colour: unknown key"),
        ("{", "not readable as YAML"),
        ("model: {path: /nowhere}", "model.path: use a name that `longtail models` lists"),
        ("cluster: {workers: 0}", "cluster.workers"),
        ("rollout: {min_p: 1}", "rollout.min_p: Input should be less than 1"),
        ('rollout: {stop: [""]}', "rollout.stop.0: String should have at least 1 character"),
        ("speculation: {strategies: [{depth: 3, verify: 4}]}", "speculation.strategies.0: verify=4 exceeds the 3 tokens"),
        ("speculation: {strategies: [{drafter: ngram, depth: 3, top_k: 2, verify: 3}]}", "set top_k to 1, or drafter to eagle"),
        ("speculation: {tuner: {name: beg, thresholds: [1, 2]}}", "speculation: tuner.thresholds has 2 values"),
        ("[" * 5000, "not readable as YAML"),
        ("name: 2026-13-45", "not readable as YAML: month must be in 1..12"),
        (f"algorithm: {{steps: 0x{'f' * 5000}}}", "algorithm.steps: Input should be less"),
    ],
)
def test_a_bad_file_is_one_line_and_code_2(database: Database, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    code, out, err = longtail("submit", str(file))
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    with database.read() as session:
        assert session.query(Run).all() == []


@pytest.mark.usefixtures("client")
def test_where_nothing_can_be_written_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "runs.csv"
    code, _, err = longtail("export", str(out))
    assert (code, err.strip()) == (2, f"longtail: {out} cannot be written: Not a directory")
    code, _, err = longtail("submit", str(tmp_path))
    assert (code, err.strip()) == (2, f"longtail: {tmp_path}: a folder, not a file of a configuration")


def test_a_port_is_one() -> None:
    code, _, err = longtail("up", "--port", "99999")
    assert code == 2
    assert "65535" in err


@pytest.mark.usefixtures("client")
def test_unknown_ids() -> None:
    assert longtail("watch", "abc")[2].strip() == "longtail: no run has an id that begins with abc"


@pytest.mark.usefixtures("client")
def test_paths_are_anchored_where_the_user_is(
    database: Database, tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    Path("run.yaml").write_text(yaml.safe_dump(config | {"model": {"path": "model"}, "task": {"name": "math", "path": "data.jsonl"}}))
    code, out, err = longtail("submit", "run.yaml")
    assert code == 0, err
    with database.read() as session:
        stored = session.get_one(Run, out.strip()).config
    assert (stored["model"]["path"], stored["task"]["path"]) == (str(tmp_path / "model"), str(tmp_path / "data.jsonl"))


def test_the_command_has_no_traceback_when_nothing_listens() -> None:
    environment = os.environ | {"LONGTAIL_URL": "http://127.0.0.1:9"}
    result = subprocess.run(
        [sys.executable, "-c", "from backend.cli import app; app()", "runs"], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "longtail up" in result.stderr


def test_webhooks_from_a_shell(client: Longtail) -> None:
    """The port is one where nobody listens, and loopback is not allowed anyway."""
    code, out, _ = longtail("webhook", "add", "https://127.0.0.1:9/in", "--event", "run.failed")
    webhook_id, secret = out.split()
    assert (code, secret.startswith("whsec_")) == (0, True)
    shown = longtail("webhook", "list")[1]
    assert webhook_id in shown
    project = client.projects().items[0].name
    assert project not in shown
    longtail("webhook", "add", "https://127.0.0.1:9/of-one", "--event", "run.reward_fell", "--project", project)
    assert project in longtail("webhook", "list")[1]
    assert secret not in shown
    code, _, err = longtail("webhook", "test", webhook_id)
    assert (code, "not a public address" in err) == (2, True)
    assert longtail("webhook", "remove", webhook_id)[0] == 0
    assert webhook_id not in longtail("webhook", "list")[1]
    assert "is no event" in longtail("webhook", "add", "https://hooks.example", "--event", "run.dreaming")[2]
