"""A run's log by range, tail, level and text; from a shell too."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from backend import cli
from backend.database import Database
from backend.models import LogLine
from longtail import Longtail
from longtail.schemas.tracking import NewBatch, NewLine

LEVELS = ("info", "warning", "error", "alarm")
ALL = list(range(20))


@pytest.fixture
def ids(database: Database, run_id: str) -> list[int]:
    """Of twenty lines; each says its number."""
    with database.write() as session:
        lines = [
            LogLine(run_id=run_id, source="engine", time=0.0, level=LEVELS[number % 4], message=f"Line {number} is 100% ok_")
            for number in ALL
        ]
        session.add_all(lines)
        session.flush()
        return [line.id for line in lines]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ALL),
        ({"since": 4}, ALL[5:]),
        ({"before": 4}, ALL[:4]),
        ({"since": 4, "before": 8}, [5, 6, 7]),
        ({"tail": 3}, [17, 18, 19]),
        ({"tail": 3, "before": 17}, [14, 15, 16]),
        ({"tail": 50, "since": 17}, [18, 19]),
        ({"level": "alarm"}, [3, 7, 11, 15, 19]),
        ({"level": ["alarm", "error"], "tail": 2}, [18, 19]),
        ({"contains": "line 1 "}, [1]),
        ({"contains": "100%"}, ALL),
        ({"contains": "_is"}, []),
        ({"contains": "1", "level": "info", "tail": 2}, [12, 16]),
    ],
)
def test_lines_by_wish(api: TestClient, run_id: str, ids: list[int], asked: dict[str, Any], found: list[int]) -> None:
    params = asked | {name: ids[asked[name]] for name in ("since", "before") if name in asked}
    reply = api.get(f"/api/v1/runs/{run_id}/logs", params=params)
    assert [item["id"] for item in reply.json()["items"]] == [ids[number] for number in found]


def longtail(*arguments: str) -> list[str]:
    result = CliRunner().invoke(cli.app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_a_log_in_a_shell(client: Longtail) -> None:
    run_id = client.begin("mine").id
    lines = [NewLine(message=f"line {number}", level="alarm" if number == 3 else "info", step=number) for number in range(5)]
    client.ingest(run_id, NewBatch(id="1", lines=[*lines, NewLine(message="\x1b[31mred\x1b[0m <b>")]))
    assert [line.split("  ", 2)[2].strip() for line in longtail("logs", run_id, "--tail", "2")] == [
        "step 4: line 4",
        "\ufffd[31mred\ufffd[0m <b>",
    ]
    assert [line.split()[2] for line in longtail("logs", run_id[:8], "--level", "alarm")] == ["alarm"]
    client.finish(run_id, "succeeded")
    followed = longtail("logs", run_id, "--follow", "--contains", "LINE", "--tail", "3")
    assert [line.rpartition(" ")[2] for line in followed] == ["2", "3", "4"]


@pytest.mark.parametrize("query", ["level=loud", "tail=0", "tail=1001", "before=-1", "contains=%00"])
def test_what_cannot_be_asked(api: TestClient, run_id: str, query: str) -> None:
    assert api.get(f"/api/v1/runs/{run_id}/logs?{query}").status_code == 422
