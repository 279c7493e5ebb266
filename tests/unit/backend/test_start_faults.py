from collections.abc import Callable
from pathlib import Path

import pytest

from backend import migrate
from backend.api import __main__ as api
from backend.cli.main import app
from backend.jobs import worker
from backend.jobs.worker import JobWorker
from backend.settings import Settings

STARTS: dict[str, Callable[[], object]] = {
    "migrations": lambda: migrate.main([]),
    "the API": api.main,
    "a worker": worker.main,
    "longtail": lambda: app(["verify"]),
}

FIRST = ("migrations", "longtail")
"""Those that leave logging as it is."""


@pytest.mark.parametrize(
    ("start", "name", "value", "said"),
    [
        *((start, "PORT", "99999", "LONGTAIL_PORT: Input should be less than or equal to 65535 (got '99999')") for start in STARTS),
        *((start, "LABELS", "cpu", """LONGTAIL_LABELS: a list is written as JSON, such as '["one", "another"]'""") for start in STARTS),
        *((start, "DATABASE_URL", "nonsense", "the address of the database is none; see LONGTAIL_DATABASE_URL") for start in FIRST),
        *((start, "HOME", "FOLDER/file/home", "FOLDER/file: ") for start in FIRST),
    ],
)
def test_what_can_be_mended_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], start: str, name: str, value: str, said: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(f"LONGTAIL_{name}", value.replace("FOLDER", str(tmp_path)))
    with pytest.raises(SystemExit) as ended:
        STARTS[start]()
    (line,) = capfd.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert said.replace("FOLDER", str(tmp_path)) in line


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        ("", "the database is not of this version; run: python -m backend.migrate\n"),
        ("redis://:secret@127.0.0.1:1/0", "the message broker does not answer: Error 111 connecting to 127.0.0.1:1. Connection refused.; "),
    ],
    ids=["no tables", "no broker"],
)
def test_a_worker_that_cannot_begin_says_why(tmp_path: Path, capfd: pytest.CaptureFixture[str], broker: str, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        JobWorker(Settings(home=tmp_path / "home", broker_url=broker)).main()
    assert ended.value.code == 2
    assert said in capfd.readouterr().err


def test_a_file_that_is_no_database_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.db").write_text("no database" * 99)
    (tmp_path / "x.db").chmod(0o600)
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LONGTAIL_DATABASE_URL", f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(SystemExit):
        migrate.main([])
    assert capfd.readouterr().err == "the database cannot be used: file is not a database; see LONGTAIL_DATABASE_URL\n"
