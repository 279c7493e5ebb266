from datetime import UTC, datetime
from typing import Any

from backend.demo_data import telemetry
from backend.pairs import likeness
from backend.schemas.runs import Run
from dashboard.pairs import MAX_NAME, kind, length_limit, plain_twin, speculates

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def run(run_id: str, config: dict[str, Any]) -> Run:
    return Run(
        id=run_id,
        name=config["name"],
        state="running",
        config=config,
        seed=0,
        tags=[],
        created_at=NOW,
        started_at=None,
        finished_at=None,
        step=5,
        steps=30,
        attempt=1,
        cancel_requested=False,
        error=None,
        error_code=None,
        summary={},
    )


def test_plain_twin_differs_in_name_and_switch_only() -> None:
    config = telemetry.config(True)
    twin = plain_twin(config)
    assert not speculates(twin)
    assert speculates(config)
    assert twin["name"] == "countdown TLT (plain)"
    assert likeness(twin) == likeness(config)


def test_plain_twin_of_a_sparse_configuration() -> None:
    assert plain_twin({"name": "n" * MAX_NAME})["speculation"] == {"enabled": False}
    assert len(plain_twin({"name": "n" * MAX_NAME})["name"]) == MAX_NAME
    assert speculates({})


def test_whatever_a_script_puts_into_its_configuration() -> None:
    odd = run("odd", {"name": "odd", "speculation": "mine", "rollout": {"max_new_tokens": "many"}}).model_copy(update={"kind": "tracked"})
    tlt = run("tlt", telemetry.config(True))
    assert (kind(odd), kind(tlt), length_limit(odd.config)) == ("tracked", "TLT", 1024)
    assert (odd.share_done, odd.model_copy(update={"steps": 0}).share_done) == (5 / 30, 0.0)
