"""A run that generates while it learns, in real processes: killed, it goes on with what was in flight."""

import json
from pathlib import Path
from typing import Any

from engine_processes import SMALL_RUN, Config, kill_once_there, lengths, run, steps
from sizes import only_with_all

from engine.events import RunStarted


@only_with_all
def test_a_killed_run_loses_and_repeats_nothing_that_was_in_flight(random_model: Path, tmp_path: Path) -> None:
    rollout = {"max_prompt_tokens": 64, "max_new_tokens": 300, "max_batch": 8}
    shared: Config = SMALL_RUN | {"model": {"path": str(random_model)}, "algorithm": SMALL_RUN["algorithm"] | {"steps": 6}}
    wanted: Config = shared | {"rollout": rollout | {"scheduling": {"asynchronous": True}}}
    (tmp_path / "asynchronous").mkdir()
    kill_once_there(wanted, tmp_path / "asynchronous", "checkpoints/step_000003")
    saved = json.loads((tmp_path / "asynchronous/checkpoints/step_000003/workers/schedule.json").read_text())["backlog"]
    events = run(wanted, tmp_path / "asynchronous", "--resume")
    started = [event for event in events if isinstance(event, RunStarted)]
    assert [event.first_step for event in started] == [0, 4]

    resumed = events[events.index(started[1]) :]
    assert [event.step for event in steps(resumed)] == [4, 5]
    assert saved["position"] == 5 * 4, "a step ahead had begun"
    for length, member in zip(lengths(resumed)[0], [member for group in saved["groups"] for member in group["members"]], strict=True):
        begun = len(member["begun"]["tokens"])
        assert length == begun if member["finish"] else length > begun

    for metrics in (event.metrics for event in steps(events)):
        assert metrics["discarded_tokens"] == 0
        assert metrics["staleness_max"] <= 1
    assert steps(events)[0].metrics["stale_share"] == 0
    assert any(event.metrics["stale_share"] > 0 for event in steps(events)[1:])
    assert all(len(responses) == 16 for responses in lengths(events))
    assert _first_lengths(shared | {"rollout": rollout}, tmp_path / "synchronous") == lengths(events)[0]


def _first_lengths(config: dict[str, Any], out: Path) -> list[int]:
    """Of the same run in which each step waits for the one before."""
    return lengths(run(config | {"algorithm": config["algorithm"] | {"steps": 1}}, out))[0]
