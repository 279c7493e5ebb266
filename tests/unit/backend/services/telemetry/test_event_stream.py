"""Events pushed to whoever follows a run: each once, wherever the connection breaks off."""

import threading
from itertools import islice

import httpx
import pytest
from new_token import NewToken
from running_server import Running

from backend.api.routes import events
from backend.models import new_id
from backend.services.telemetry import event_stream, log_lines
from backend.settings import Settings
from longtail import ApiError, Longtail, sse
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import LogLine
from longtail.schemas.tracking import NewBatch, NewLine

UNFINISHED = 20


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    own = 1 if request.node.originalname == "test_one_user_leaves_streams_for_others" else 2
    return settings.model_copy(update={"event_streams": 2, "event_streams_per_user": own})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.05)


@pytest.fixture
def run_id(client: Longtail) -> str:
    return client.begin("mine").id


def say(client: Longtail, run_id: str, *messages: str) -> None:
    client.ingest(run_id, NewBatch(id=new_id(), lines=[NewLine(message=message) for message in messages]))


def lines(happened: list[Run | LogLine]) -> list[str]:
    return [one.message for one in happened if isinstance(one, LogLine)]


def opened(client: Longtail, run_id: str, place: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {client.token}"} | ({"Last-Event-ID": place} if place else {})
    request = httpx.Request("GET", f"{client.base_url}/api/v1/runs/{run_id}/events", headers=headers)
    return httpx.Client(trust_env=False, timeout=120).send(request, stream=True)


def taken(client: Longtail, run_id: str, count: int, place: str = "") -> list[sse.Event]:
    response = opened(client, run_id, place)
    try:
        return list(islice(sse.parse(response.iter_lines()), count))
    finally:
        response.close()


def test_a_stream_has_all_and_ends_with_the_run(client: Longtail, run_id: str) -> None:
    say(client, run_id, "one", "two")
    client.finish(run_id, "failed", "out of memory")
    response = opened(client, run_id)
    assert response.headers["content-type"].startswith("text/event-stream")
    found = list(sse.parse(response.iter_lines()))
    assert [event.kind for event in found] == ["log", "log", "run"]
    run = Run.model_validate_json(found[-1].data)
    assert run == client.run(run_id)
    assert taken(client, run_id, 9, found[-1].id) == [], "who has seen the end is told nothing more"


def test_who_follows_sees_what_happens(client: Longtail, run_id: str) -> None:
    seen: list[Run | LogLine] = []
    reader = threading.Thread(target=lambda: seen.extend(client.follow(run_id)))
    reader.start()
    for number in range(UNFINISHED):
        say(client, run_id, f"line {number}")
    client.finish(run_id, "succeeded")
    reader.join(120)
    assert lines(seen) == [f"line {number}" for number in range(UNFINISHED)]
    states = [one.state for one in seen if isinstance(one, Run)]
    assert (states[-1], states.count("succeeded"), seen[-1]) == ("succeeded", 1, client.run(run_id))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_it_goes_on_where_it_broke_off(client: Longtail, run_id: str, count: int) -> None:
    """Whoever hangs up after so many events, again and again, misses nothing and sees nothing twice."""
    say(client, run_id, *(f"line {number}" for number in range(8)))
    client.finish(run_id, "succeeded")
    found: list[sse.Event] = []
    while new := taken(client, run_id, count, found[-1].id if found else ""):
        found += new
    assert [event.kind for event in found] == ["log"] * 8 + ["run"]
    assert [LogLine.model_validate_json(event.data).message for event in found[:-1]] == [f"line {number}" for number in range(8)]


def test_a_client_comes_back_when_the_server_ends_the_stream(client: Longtail, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST_SECONDS", 0.1)
    seen: list[Run | LogLine] = []
    reader = threading.Thread(target=lambda: seen.extend(client.follow(run_id)))
    reader.start()
    for number in range(UNFINISHED):
        say(client, run_id, f"line {number}")
        threading.Event().wait(0.05)
    client.finish(run_id, "succeeded")
    reader.join(120)
    assert lines(seen) == [f"line {number}" for number in range(UNFINISHED)]


def test_a_client_comes_back_when_the_server_does(client: Longtail, running: Running, run_id: str) -> None:
    seen: list[Run | LogLine] = []
    reader = threading.Thread(target=lambda: seen.extend(client.follow(run_id)))
    reader.start()
    say(client, run_id, "before")
    running.stop()
    running.start()
    say(client, run_id, "after")
    client.finish(run_id, "succeeded")
    reader.join(120)
    assert lines(seen) == ["before", "after"]


def test_more_lines_than_fit_at_once(client: Longtail, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (log_lines, events, event_stream):
        monkeypatch.setattr(module, "LOG_LINES", 3)
    say(client, run_id, *(f"line {number}" for number in range(10)))
    client.finish(run_id, "succeeded")
    assert lines(list(client.follow(run_id))) == [f"line {number}" for number in range(10)]


def test_lines_from_one_on(client: Longtail, run_id: str) -> None:
    say(client, run_id, "one", "two", "three")
    client.finish(run_id, "succeeded")
    first = client.logs(run_id)[0]
    assert lines(list(client.follow(run_id, since=first.id))) == ["two", "three"]


def test_only_so_many_streams_are_open(client: Longtail, run_id: str) -> None:
    first, second = opened(client, run_id), opened(client, run_id)
    refused = opened(client, run_id)
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
    assert refused.headers["content-type"] == "application/problem+json"
    first.close()
    for _ in range(1000):
        again = opened(client, run_id)
        if again.status_code == 200:
            break
        threading.Event().wait(0.05)
    assert again.status_code == 200, "who hangs up makes room"
    second.close()
    again.close()


def test_one_user_leaves_streams_for_others(client: Longtail, run_id: str, new_token: NewToken, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tokens one has: another user is let in at once."""
    greedy = [new_token("viewer", "greedy")]
    greedy.append(Longtail(client.base_url, greedy[0]).create_token("more", "viewer").token)
    monkeypatch.setattr(client, "token", greedy[0])
    first = opened(client, run_id)
    monkeypatch.setattr(client, "token", greedy[1])
    refused = opened(client, run_id)
    assert (first.status_code, refused.status_code) == (200, 429)
    assert "of yours" in refused.read().decode()
    monkeypatch.setattr(client, "token", new_token("viewer", "modest"))
    other = opened(client, run_id)
    assert other.status_code == 200
    first.close()
    other.close()


@pytest.mark.parametrize(("path", "place", "status"), [("0" * 16, "", 404), ("", "nonsense", 422), ("", "99999999999.", 422)])
def test_a_stream_that_cannot_be_is_a_problem(client: Longtail, run_id: str, path: str, place: str, status: int) -> None:
    assert opened(client, path or run_id, place).status_code == status
    assert [opened(client, "0" * 16).status_code for _ in range(4)] == [404] * 4, "a refusal takes no seat"


def test_nobody_follows_without_a_token(running: Running, run_id: str) -> None:
    with Longtail(running.url, "") as stranger, pytest.raises(ApiError, match="valid token"):
        next(stranger.follow(run_id))


def test_events_as_they_arrive() -> None:
    sent = [": ping", "", "event: log", "data: {", 'data: "a": 1}', "id: 7.", "", "data:x", "", "event: log", "data: broken off"]
    assert list(sse.parse(sent)) == [sse.Event("log", '{\n"a": 1}', "7."), sse.Event("message", "x", "")]
