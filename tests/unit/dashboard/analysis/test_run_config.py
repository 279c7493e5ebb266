from example_runs import run

from backend.demo_data import telemetry
from backend.models.baseline import likeness
from dashboard.analysis.run_config import MAX_NAME, length_limit, plain_baseline, run_kind, seed, speculates


def test_plain_twin_differs_in_name_and_switch_only() -> None:
    config = telemetry.config(True)
    twin = plain_baseline(config)
    assert not speculates(twin)
    assert speculates(config)
    assert twin["name"] == "countdown TLT (plain)"
    assert likeness(twin) == likeness(config)


def test_plain_twin_of_a_sparse_configuration() -> None:
    assert plain_baseline({"name": "n" * MAX_NAME})["speculation"] == {"enabled": False}
    assert len(plain_baseline({"name": "n" * MAX_NAME})["name"]) == MAX_NAME
    assert speculates({})


def test_whatever_a_script_puts_into_its_configuration() -> None:
    odd = run("odd", {"name": "odd", "speculation": "mine", "rollout": {"max_new_tokens": "many"}}).model_copy(update={"kind": "tracked"})
    tlt = run("tlt", telemetry.config(True))
    assert (run_kind(odd), run_kind(tlt), length_limit(odd.config)) == ("tracked", "TLT", 1024)
    assert (odd.share_done, odd.model_copy(update={"steps": 0}).share_done) == (5 / 30, 0.0)


def test_a_script_that_never_said_how_many_steps_there_are_is_done_only_if_it_succeeded() -> None:
    ended = [
        run("odd", {"name": "odd"}).model_copy(update={"kind": "tracked", "steps": 0, "state": state})
        for state in ("failed", "cancelled", "succeeded")
    ]
    assert [each.share_done for each in ended] == [0.0, 0.0, 1.0]


def test_a_script_that_tells_no_seed_has_none() -> None:
    tracked = run("odd", {"name": "odd", "seed": 3}).model_copy(update={"kind": "tracked"})
    assert (seed(tracked), seed(tracked.model_copy(update={"config": {}, "seed": 0}))) == (3, None)
