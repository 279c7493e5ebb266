"""The whole app, on a platform with generated runs whose API is asked in this process."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from api_in_process import Counted, api_with_runs
from database_copies import DatabaseCopies
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from streamlit.testing.v1 import AppTest, local_script_runner

from backend.demo_data import telemetry
from backend.demo_data.planned_runs import PlannedRun, identity
from dashboard import page_files
from dashboard.auth import api_client
from engine.config import RunConfig
from longtail.schemas.identity import Role
from longtail.schemas.runs import Run

PLAIN, TLT = identity(0, 0), identity(0, 1)
APP = Path(page_files.__file__).with_name("app.py")


def pair() -> list[PlannedRun]:
    """A plain run and one with TLT, of two steps."""
    return [
        PlannedRun(run_id, RunConfig.model_validate(telemetry.config(speculation, algorithm={"steps": 2})), "succeeded", 2, 1.8e9)
        for run_id, speculation in ((PLAIN, False), (TLT, True))
    ]


@contextmanager
def api_of_app(
    home: Path, copies: DatabaseCopies, monkeypatch: pytest.MonkeyPatch, plans: Sequence[PlannedRun], role: Role = "editor"
) -> Iterator[Counted]:
    """That the app asks, as a user of this role."""
    with api_with_runs(home, copies, plans, role) as api:
        monkeypatch.setattr(api_client, "client_of_session", lambda _: api)
        yield api
    gc.unfreeze()  # what the app keeps


def opened_app(api: Counted) -> AppTest:
    """Not drawn yet."""
    page = AppTest.from_file(APP, default_timeout=300)
    page.session_state["me"] = api.me()
    return page


def parts_that_look(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fragments that the browser is told to have drawn anew now and then, from now on, the latest last."""
    runner, found = local_script_runner.LocalScriptRunner, list[str]()
    enqueue = runner._enqueue_forward_msg

    def note(self: local_script_runner.LocalScriptRunner, message: ForwardMsg) -> None:
        if message.HasField("auto_rerun"):
            found.append(message.auto_rerun.fragment_id)
        enqueue(self, message)

    monkeypatch.setattr(runner, "_enqueue_forward_msg", note)
    return found


def look(page: AppTest, monkeypatch: pytest.MonkeyPatch, part: str) -> AppTest:
    """Draws that fragment of the page alone; the whole page if that asks for it."""
    with monkeypatch.context() as looking:
        looking.setattr(local_script_runner, "RerunData", partial(RerunData, fragment_id_queue=[part], is_auto_rerun=True))
        page.run()
    assert not page.exception
    return page


def clicked(page: AppTest, label: str) -> WidgetStates:
    """What the browser says of a click on the button."""
    button = next(button for button in page.button if button.label == label)
    states = page._tree.get_widget_states()
    states.widgets.append(WidgetState(id=button.proto.id, trigger_value=True))
    return states


def double_click(page: AppTest, api: Counted, monkeypatch: pytest.MonkeyPatch, label: str) -> None:
    """The second click is there while the API accepts what the first one submits."""
    click, accept = clicked(page, label), api._accept

    def accept_and_hear(*asked: Any) -> Run:
        run = accept(*asked)
        monkeypatch.setattr(api, "_accept", accept)
        context = get_script_run_ctx()
        assert context is not None
        assert context.script_requests is not None
        context.script_requests.request_rerun(RerunData(context.query_string, click, page_script_hash=context.page_script_hash))
        return run

    monkeypatch.setattr(api, "_accept", accept_and_hear)
    page._run(click)
    assert not page.exception
