"""``longtail plan --trace RUN``: a run's id becomes a folder with what the planner needs of it."""

from pathlib import Path

from engine_events import begin, started, step, write

from backend.cli.plans import plan_arguments
from backend.database import Database
from engine.config import load
from engine.events import StepFinished
from engine.planner.answers.recorded_run import recorded_run
from longtail import Longtail


def test_a_run_is_fetched_and_then_gone(client: Longtail, database: Database, run_id: str, tmp_path: Path) -> None:
    ingestor = begin(database, run_id, path := tmp_path / "events.jsonl")
    newer = step(1)[-1]
    assert isinstance(newer, StepFinished)
    newer.metrics["prompt_tokens"] = 300.0
    write(path, started(), *step(0), *step(1)[:-1], newer)
    ingestor.drain()
    with plan_arguments(["run.yaml", "--trace", run_id[:8], "--quick"]) as arguments:
        assert (arguments[:2], arguments[3:]) == (["run.yaml", "--trace"], ["--quick"])
        folder = Path(arguments[2])
        found = recorded_run(folder)
        assert [(one.lengths, one.seconds, one.phases) for one in found.steps] == [((4, 2, 8, 6), 2.0, {"rollout": 1.0})] * 2
        assert found.prompt == 300.0
        assert load(folder / "config.yaml").model_dump(mode="json") == client.run(run_id).config
    assert not folder.exists()


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    for given in (["run.yaml"], ["run.yaml", "--trace", str(tmp_path)], ["run.yaml", "--trace"]):
        with plan_arguments(given) as arguments:
            assert arguments == given
