"""Many runs, and what is written about one, from a shell."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from backend import cli
from backend.database import Database
from backend.jobs.engine.environment_record import environment_record
from backend.models import Run
from backend.services.runs import search_index
from backend.services.runs.attempts import claim, record_process
from longtail import ApiError, Longtail
from longtail.schemas.attempts import GitState


def longtail(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def two(client: Longtail, database: Database, config: dict[str, Any]) -> list[str]:
    ids = [client.submit(config | {"name": name, "seed": seed}, [tag]).id for name, seed, tag in (("plain", 1, "base"), ("tlt", 2, "new"))]
    for run_id, reward in zip(ids, (0.5, 0.25), strict=True):
        with database.write() as session:
            session.get_one(Run, run_id).summary = {"reward_mean": reward}
            search_index.index_summary(session, run_id, {"reward_mean": reward})
    return ids


def listed(*options: str) -> list[str]:
    code, out, err = longtail("runs", *options)
    assert code == 0, err
    return [line.split()[0] for line in out.splitlines()[1:]]


def test_lists(two: list[str]) -> None:
    plain, tlt = two
    assert listed() == [tlt, plain]
    assert listed("--sort", "-summary.reward_mean") == [plain, tlt]
    assert listed("--tag", "new", "--state", "queued", "--state", "running", "--owner", "admin") == [tlt]
    assert listed("--where", "config.seed=1", "--project", "default") == [plain]
    assert listed("-q", "tl", "--since", "2020-01-01") == [tlt]
    assert listed("--until", "2020-01-01") == listed("--deleted") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("runs", "--sort", "colour"), "sort: "),
        (("runs", "--where", "seed 1"), "where.0: "),
        (("runs", "--state", "dreaming"), "state.0: "),
        (("runs", "--project", "nowhere"), "there is no project nowhere"),
        (("show", "f" * 16), "there is no run ffffffffffffffff"),
        (("export", "runs.xlsx"), "a table is written as .csv, .json or .parquet"),
        (("project", "add", "default", "nobody"), "there is no user nobody"),
        (("project", "add", "default", "admin", "--role", "king"), "king is no role"),
    ],
)
@pytest.mark.usefixtures("client")
def test_what_is_wrong_is_said_in_a_line(arguments: tuple[str, ...], said: str) -> None:
    code, out, err = longtail(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_labels(client: Longtail, two: list[str]) -> None:
    assert longtail("tag", two[0][:8], "good", "base", "--remove", "base")[1].strip() == f"{two[0]} good"
    assert longtail("tag", two[0], "--remove", "good")[1].strip() == f"{two[0]} no tags"
    assert longtail("note", two[0], "worth a look")[0] == longtail("rename", two[0], "best")[0] == 0
    run = client.run(two[0])
    assert (run.name, run.notes, run.tags, run.revision) == ("best", "worth a look", [], 4)
    with pytest.raises(ApiError) as stale:
        client.change_run(run.id, revision=0, notes="unseen")
    assert stale.value.status == 412


def test_all_that_is_known_of_a_run(client: Longtail, database: Database, config: dict[str, Any]) -> None:
    source = GitState(commit="c" * 40, branch="idea", dirty=True)
    run_id = client.submit(config | {"name": "[bold]x"}, notes="\x1b[31mred", source=source).id
    with database.write() as session:
        claimed = claim(session, run_id, "b" * 16, 60)
        assert claimed is not None
        record_process(session, claimed, 1, 1, environment_record().model_dump(mode="json"))
    code, out, err = longtail("show", run_id, "--config")
    assert code == 0, err
    for said in ("[bold]x", "\N{REPLACEMENT CHARACTER}[31mred", "commit cccccccccccc on idea", "b" * 16, "Python 3.", "group_size: 8"):
        assert said in out, said
    assert "\x1b" not in out
    everything = json.loads(longtail("show", run_id, "--json")[1])
    assert everything["run"]["source"] == source.model_dump()
    assert "fastapi" in everything["attempts"][0]["environment"]["packages"]


def test_a_submission_says_where_it_comes_from(
    client: Longtail, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(json.dumps(config))
    project = longtail("project", "create", "mine", "--description", "for a test")[1].strip()
    run = client.run(longtail("submit", "run.yaml", "--project", "mine", "--notes", "first")[1].strip())
    assert (run.project_id, run.notes, run.source) == (project, "first", None)


def test_projects(client: Longtail) -> None:
    longtail("project", "create", "mine")
    client.add_user("anna")
    assert longtail("project", "add", "mine", "anna", "--role", "viewer")[0] == 0
    assert longtail("project", "members", "mine")[1].split("\n")[:2] == ["admin: admin", "anna: viewer"]
    assert longtail("project", "rename", "mine", "ours")[0] == longtail("project", "remove", "ours", "anna")[0] == 0
    assert "anna" not in longtail("project", "members", "ours")[1]
    assert longtail("project", "archive", "ours")[0] == 0
    assert "ours" not in longtail("project", "list")[1]
    assert "archived" in longtail("project", "list", "--all")[1]
    assert longtail("project", "archive", "ours", "--undo")[0] == 0
    assert "ours" in longtail("project", "list")[1]
    secret = longtail("token", "create", "bot", "--project", "ours")[1].strip()
    with Longtail(client.base_url, secret) as bot:
        assert [project.name for project in bot.projects().items] == ["ours"]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_tables(two: list[str], tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"runs.{suffix}"
    assert longtail("export", str(out), "--tag", "new")[0] == 0
    assert two[1].encode() in out.read_bytes()
    assert two[0].encode() not in out.read_bytes()
    points = tmp_path / f"points.{suffix}"
    assert longtail("export", str(points), two[0][:8], "--metrics", "--key", "loss")[0] == 0
    assert two[0].encode() not in points.read_bytes(), "it has no points yet"
    assert not list(tmp_path.glob("*.part"))
