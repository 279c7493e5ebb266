"""The drafter's model card, from a run's events."""

from pathlib import Path

from engine import artifacts
from engine.config import RunConfig
from engine.events import DrafterTrained, EventWriter, Speculation, StepFinished


def write(out: Path, accepted: list[list[int]]) -> None:
    """A step for each of ``accepted``, of ten drafts at each depth; every other one publishes a drafter."""
    events = EventWriter(out / "events.jsonl")
    for step, counts in enumerate(accepted):
        events.write(Speculation(step=step, arms=[], drafted_by_position=[10] * len(counts) + [0], accepted_by_position=[*counts, 0]))
        events.write(
            DrafterTrained(
                step=step,
                drafter_version=step // 2 + 1,
                published=step % 2 == 0,
                reason=f"reason {step}",
                microsteps=5,
                tokens=9,
                loss=0.5,
                held_out_before=0.4,
                held_out_after=0.5,
            )
        )
        events.write(StepFinished(step=step, seconds=1, phases={}, metrics={"accept_length": 1.0 + sum(counts) / 10}))
    events.close()


def test_the_card_tells_of_the_last_quarter_and_of_every_version(tmp_path: Path) -> None:
    write(tmp_path, [[1]] * 6 + [[8, 4], [6, 4, 2]])
    card = artifacts._card(RunConfig(), tmp_path)
    assert (card.base_model, card.task, card.version) == ("tiny", "countdown", 4)
    assert card.accept_length == 2.2
    assert card.acceptance == (0.7, 0.4, 0.2)
    assert [line.partition(":")[0] for line in card.history] == [
        f"version {version}, after RL step {2 * version - 2}" for version in (1, 2, 3, 4)
    ]


def test_a_run_without_steps(tmp_path: Path) -> None:
    write(tmp_path, [])
    card = artifacts._card(RunConfig(), tmp_path)
    assert (card.accept_length, card.acceptance, card.history) == (None, (), ())
