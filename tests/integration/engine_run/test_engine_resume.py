"""The engine killed, stopped and gone on with, in real processes: nothing that is learned changes."""

from pathlib import Path

import torch
from engine_processes import ALONE, Config, finish, kill_once_there, lengths, policy, run, start, steps
from safetensors.torch import load_file
from sizes import only_with_all

from engine.events import Sample, read


def test_a_killed_run_resumes_to_the_same_policy(config: Config, plain: Path, tmp_path: Path) -> None:
    """SIGKILL of the whole session after the first checkpoint; the resumed attempt ends where the undisturbed run did."""
    wanted = config | ALONE | {"speculation": {"enabled": False}}
    for number in range(5):
        out = tmp_path / str(number)
        kill_once_there(wanted, out, "checkpoints/step_000001")
        if not (out / "checkpoints/step_000002").exists():
            break  # else the machine was so busy that the kill came after the last step
    events = run(wanted, out, "--resume")
    resumed = [event for event in events if event.kind == "run_started"][-1]
    assert resumed.kind == "run_started"
    assert resumed.first_step == 2
    assert policy(out) == policy(plain)


@only_with_all
def test_a_run_asked_to_stop_does_so_at_a_step_boundary_and_goes_on_to_the_same_policy(config: Config, plain: Path, tmp_path: Path) -> None:
    wanted = config | ALONE | {"speculation": {"enabled": False}}
    (tmp_path / "stop").touch()
    code, errors = finish(start(wanted, tmp_path))
    assert (code, errors.splitlines()[-1]) == (75, "stopped after step 0, as asked; --resume goes on from there")
    assert not (tmp_path / "stop").exists(), "a wish that was granted must not stop the next attempt"
    *_, saved, stopped = read(tmp_path / "events.jsonl")
    assert (saved.kind, stopped.kind) == ("checkpoint", "run_stopped")
    events = run(wanted, tmp_path, "--resume")
    assert [event.step for event in steps(events)] == [0, 1, 2]
    assert policy(tmp_path) == policy(plain)


@only_with_all
def test_a_run_goes_on_with_other_numbers_of_workers(config: Config, plain: Path, tmp_path: Path) -> None:
    """A step with two, one with one, one with three, all with shards of the policy: the responses and the policy of one with the whole."""
    for workers in (2, 1, 3):
        cluster = {"workers": workers, "learner": {"parallel": "fsdp"}}
        wanted = config | {"speculation": {"enabled": False}, "cluster": cluster}
        if workers != 3:
            (tmp_path / "stop").touch()
        code, errors = finish(start(wanted, tmp_path, *([] if workers == 2 else ["--resume"])))
        assert code == (0 if workers == 3 else 75), errors[-2000:]
    events, expected = (list(read(out / "events.jsonl")) for out in (tmp_path, plain))
    assert lengths(events) == lengths(expected)
    assert [event.prompt for event in events if isinstance(event, Sample)] == [
        event.prompt for event in expected if isinstance(event, Sample)
    ]
    found, wanted_weights = (load_file(out / "artifacts/policy/model.safetensors") for out in (tmp_path, plain))
    torch.testing.assert_close(found, wanted_weights, atol=1e-5, rtol=0)
