"""What an open page asks the API for while nothing happens to its run: of a real API, for tabs that ask for something by themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.testing.v1 import AppTest

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.auth import api_client
from dashboard.data import offline_cache, run_data
from dashboard.data.refresh_pace import LONGEST_SECONDS, SETTLING_LOOKS
from dashboard.data.run_data import SPAN_STEPS
from dashboard.views.run import follow
from dashboard.views.run.tabs import logs
from engine.config import RunConfig
from longtail.schemas.runs import Run

RUN = identity(0, 0)
STEPS, LOOKS, LOOK_SECONDS = SPAN_STEPS + 5, 3, 2.0


class Asking(NamedTuple):
    """Ends of the paths that a tab asks for by itself, and what is chosen there before."""

    paths: set[str]
    choice: Mapping[str, Any] = {}


ASKING = {
    "Timeline": Asking({"spans", "decoding", "speculation"}, {f"window-{RUN}": 0, f"timeline-step-{RUN}": 2}),
    "Samples": Asking({"samples", "runs"}),
    "Metrics": Asking({"metrics", "keys"}, {"metric-find": "^loss$"}),
    "Logs": Asking({"logs"}),
    "Config": Asking({"attempts"}),
}


@dataclass
class Clock:
    now: float = 1000.0


def script(run: "Run") -> None:
    """Its source is read and run elsewhere, where nothing of this file is known."""
    from dashboard.views.run.follow import follow

    follow(run, True)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, database_copies: DatabaseCopies) -> Iterator[Counted]:
    """Of a platform with one run, which is under way."""
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 2 * STEPS}))
    plans = [PlannedRun(RUN, config, "running", STEPS, 1.8e9)]
    with api_with_runs(tmp_path_factory.mktemp("home"), database_copies, plans, "viewer") as api:
        yield api


@pytest.mark.parametrize("name", ASKING)
def test_a_page_that_is_left_open_asks_whether_the_run_goes_on_and_hardly_more(
    api: Counted, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = api.runs().items[0]
    clock = Clock()
    for module in (follow, run_data, offline_cache, logs):
        monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
    monkeypatch.setattr(page_files, "RUN", "http://localhost/run")  # only app.py knows the pages by their files
    shown = AppTest.from_function(script, args=(run,), default_timeout=300)
    for key, value in {"me": api.me(), "tab": name, **ASKING[name].choice}.items():
        shown.session_state[key] = value
    if name == "Samples":
        latest = api.samples(run.id, limit=1)[0]
        shown.session_state[f"elsewhere-{run.id}-{latest.step}-{latest.prompt_number}-{hash(latest.prompt)}"] = True
    for _ in range(SETTLING_LOOKS):
        assert not shown.run().exception
        clock.now += LOOK_SECONDS
    if name == "Metrics":
        assert [caption.value for caption in shown.caption if caption.value.startswith("1 series of ")], "one is a series, too"
    api.asked.clear()
    for _ in range(LOOKS):
        shown.run()
        clock.now += LOOK_SECONDS
    lines = [path for path in api.asked if path.endswith("/logs")]
    assert [path for path in api.asked if path not in lines] == [f"/api/v1/runs/{run.id}"] * LOOKS
    assert len(lines) == (name == "Logs"), "which come in the midst of a step, too"
    clock.now += LONGEST_SECONDS
    shown.run()
    assert ASKING[name].paths <= {path.rsplit("/", 1)[-1] for path in api.asked}
