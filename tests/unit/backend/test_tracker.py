"""Programs that track their own runs, against a real server that comes and goes."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import httpx
import pytest
from running_server import Running

from backend.settings import Settings
from longtail import ApiError, Longtail
from longtail.schemas.projects import DEFAULT_PROJECT
from longtail.schemas.runs import Run
from longtail.schemas.tracking import NewBatch, Receipt


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"max_body_bytes": 4096})


def values(client: Longtail, run: Run, key: str = "loss") -> dict[int, float | None]:
    series = client.metrics(run.id, points=10_000).series[key]
    return dict(zip(series.steps, series.values, strict=True))


def test_what_was_said_is_there(client: Longtail) -> None:
    with client.track("mine", {"rate": 0.1}, ["a"], steps=3) as tracker:
        for step in range(3):
            tracker.log(step, {"loss": 1 / (step + 1), "norm": math.inf})
        tracker.note("half way", step=1)
        tracker.note("oh", "alarm")
    run = client.run(tracker.run.id)
    assert (run.kind, run.state, run.step, run.steps, run.config) == ("tracked", "succeeded", 3, 3, {"rate": 0.1})
    assert values(client, run) == {0: 1.0, 1: 0.5, 2: 1 / 3}
    assert values(client, run, "norm") == {0: None, 1: None, 2: None}
    assert [(line.message, line.level, line.step) for line in client.logs(run.id)] == [("half way", "info", 1), ("oh", "alarm", None)]
    with pytest.raises(ValueError, match="is finished"):
        tracker.log(3, {"loss": 0.0})


def test_a_run_belongs_to_the_project_that_was_named(client: Longtail) -> None:
    project = client.create_project("reasoning")
    with (
        client.track("by name", project="reasoning") as by_name,
        client.track("by id", project=project.id) as by_id,
        client.track("none") as none,
    ):
        pass
    assert [client.run(each.run.id).project_id for each in (by_name, by_id, none)] == [project.id, project.id, DEFAULT_PROJECT]
    with pytest.raises(ApiError, match="there is no project reasonin"):
        client.track("misspelt", project="reasonin")
    assert {run.id for run in client.runs().items} == {by_name.run.id, by_id.run.id, none.run.id}


def test_every_item_of_a_list_comes_once_however_small_its_pages_are(client: Longtail) -> None:
    names = [f"run {number}" for number in range(5)]
    for name in names:
        client.begin(name)
    client.begin("another")
    assert [run.name for run in client.every(client.runs, q="run ", limit=2)] == names[::-1]
    assert list(client.every(client.runs, state="failed")) == []


@pytest.mark.parametrize("value", [r'"\ud800"', "1" + "0" * 400])
def test_a_configuration_that_no_database_keeps_is_refused(client: Longtail, server: str, value: str) -> None:
    content = f"""{{"name": "strange", "config": {{"a": {value}}}}}"""
    headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
    reply = httpx.post(f"{server}/api/v1/runs/tracked", content=content, headers=headers, timeout=60, trust_env=False)
    assert reply.status_code == 422, reply.text
    assert "config" in reply.text


def test_a_project_without_a_name_is_none(client: Longtail) -> None:
    with pytest.raises(ApiError, match="there is no project"):
        client.track("mine", project="")


def test_a_token_that_cannot_be_one_is_told_without_it() -> None:
    with pytest.raises(ApiError, match="this is no token") as refusal:
        Longtail("http://127.0.0.1:9", "secret\nsecret")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (ValueError("a file \ud800"), "failed", "a file ?"),
        (ValueError("nan loss"), "failed", "nan loss"),
        (KeyboardInterrupt(), "cancelled", ""),
        (SystemExit(0), "succeeded", ""),
        (SystemExit(1), "failed", ""),
    ],
)
def test_the_block_says_how_it_ended(client: Longtail, error: BaseException, state: str, said: str) -> None:
    tracker = client.track("mine")
    tracker.log(0, {"loss": 1.0})
    with pytest.raises(type(error)), tracker:
        raise error
    run = client.run(tracker.run.id)
    assert run.state == state
    assert said in (run.error or "")
    assert values(client, run) == {0: 1.0}


def test_many_points_go_in_batches_that_the_server_takes(client: Longtail) -> None:
    with client.track("mine") as tracker:
        for step in range(2500):
            tracker.log(step, {"loss": step / 7})
        tracker.note("x" * 3000)
        tracker.note("y" * 3000)
    assert values(client, tracker.run) == {step: step / 7 for step in range(2500)}
    assert [line.message[0] for line in client.logs(tracker.run.id)] == ["x", "y"]


def test_a_key_that_cannot_be_is_refused_at_once(client: Longtail) -> None:
    with client.track("mine") as tracker:
        for step, key in ((-1, "loss"), (0, "a,b"), (0, "")):
            with pytest.raises(ValueError, match="validation error"):
                tracker.log(step, {key: 1.0})


def test_nothing_is_lost_while_the_server_is_away(client: Longtail, running: Running) -> None:
    with client.track("mine") as tracker:
        tracker.log(0, {"loss": 0.0})
        running.stop()
        for step in range(1, 50):
            tracker.log(step, {"loss": float(step)})
        running.start()
    assert tracker.run.state == "succeeded"
    assert values(client, tracker.run) == {step: float(step) for step in range(50)}


class Lossy(Longtail):
    """Every other answer gets lost on its way back."""

    asked = 0

    def _request(self, method: str, path: str, **options: Any) -> Any:
        reply = super()._request(method, path, **options)
        self.asked += 1
        if self.asked % 2:
            raise ApiError(0, "No server", "the answer got lost")
        return reply

    def ingest(self, run_id: str, batch: NewBatch) -> Receipt:
        receipt = super().ingest(run_id, batch)
        assert receipt.repeated, "it was written the first time"
        return receipt


def test_a_lost_answer_doubles_nothing(client: Longtail, running: Running) -> None:
    with Lossy(running.url, client.token) as lossy, lossy.track("mine") as tracker:
        tracker.log(0, {"loss": 1.0})
        tracker.note("once")
    assert len(client.runs().items) == 1
    assert client.run(tracker.run.id).state == "succeeded"
    assert values(client, tracker.run) == {0: 1.0}
    assert [line.message for line in client.logs(tracker.run.id)] == ["once"]


def wait_until(condition: Callable[[], bool], tracker: Any) -> None:
    deadline = time.monotonic() + 60
    for step in count():
        tracker.log(step, {"loss": 1.0})
        if condition():
            return
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@contextmanager
def closed(client: Longtail) -> Iterator[Any]:
    tracker = client.track("mine")
    client.finish(tracker.run.id, "failed", "somebody closed it")
    yield tracker


def test_a_refusal_reaches_the_program(client: Longtail, capfd: pytest.CaptureFixture[str]) -> None:
    with closed(client) as tracker, pytest.raises(ApiError, match="somebody closed it"), tracker:
        wait_until(lambda: False, tracker)
    assert "is not told about any more" in capfd.readouterr().err
    assert client.run(tracker.run.id).error == "somebody closed it"


def test_a_server_that_stays_away_is_an_error(client: Longtail, running: Running) -> None:
    tracker = client.track("mine", patience=0.5)
    running.stop()
    tracker.log(0, {"loss": 1.0})
    with pytest.raises(ApiError, match="no Longtail server answers"):
        tracker.finish()
    running.start()
    assert client.run(tracker.run.id).state == "running", "its silence will end it"


def test_a_wish_to_stop_is_heard(client: Longtail) -> None:
    with client.track("mine") as tracker:
        client.cancel(tracker.run.id)
        wait_until(lambda: tracker.stop_requested, tracker)
    assert client.run(tracker.run.id).state == "cancelled"


def test_the_reply_is_json_even_for_huge_numbers(client: Longtail) -> None:
    with client.track("mine") as tracker:
        tracker.log(0, {"loss": 1e308, "least": 5e-324})
    assert json.dumps(values(client, tracker.run)) == '{"0": null}', "sums of it would not be finite"
    assert values(client, tracker.run, "least") == {0: 5e-324}
