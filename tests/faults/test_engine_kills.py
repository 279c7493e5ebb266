"""``kill -9`` of an engine's processes at random moments: the run resumes and ends as if nothing had happened."""

import os
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from engine_attempts import Attempts, check, configuration
from safetensors.torch import load_file
from sizes import only_with_all
from torch import Tensor

from engine.errors import RESUMABLE

KILLS = 10
SEED = int(os.environ.get("LONGTAIL_FAULT_SEED", "0"))
PARTS = {"worker": "ray::", "engine": "-m engine run", "raylet": "raylet/raylet", "everything": ""}
FARTHEST = 4
"""Steps of an attempt until its kill, at most: few enough that the run outlives all kills."""
WITHIN, STARTING = 0.1, 1.0
"""Seconds until the kill behind those steps, about one more, or behind the start of an attempt that is killed before its first, at most."""


def named(processes: set[int], part: str) -> list[int]:
    """Those whose command line has ``part`` in it."""
    found = []
    for process in sorted(processes):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if part in words:
            found.append(process)
    return found


def shoot(attempts: Attempts, part: str, chance: random.Random) -> str:
    """Kills one process of that kind, or all; what was killed."""
    targets = named(attempts.processes(), PARTS[part])
    if part == "everything" or not targets:
        attempts.kill()
        return "everything"
    os.kill(chance.choice(targets), 9)
    return part


def policy(attempts: Attempts) -> dict[str, Tensor]:
    return load_file(attempts.out / "artifacts/policy/model.safetensors")


def _has_come(least: int, attempts: Attempts) -> bool:
    return attempts.steps() >= least


def survive(attempts: Attempts, parts: Sequence[str], chance: random.Random) -> None:
    """Runs to the end, with a kill of each of ``parts`` on the way."""
    for index, part in enumerate(parts):
        began, least = time.monotonic(), chance.randint(1, FARTHEST)
        attempts.start()
        starting = index % 5 == 4
        if not starting:
            attempts.until(partial(_has_come, least))
        time.sleep(chance.uniform(0, STARTING if starting else WITHIN))
        assert attempts.process.poll() is None, "it ended before it was killed"
        steps, lived = attempts.steps(), time.monotonic() - began
        shot = shoot(attempts, part, chance)
        code = attempts.ended()
        assert code == RESUMABLE or code < 0, attempts.log()[-3000:]
        told = f"attempt {attempts.number}, {lived:.1f} s, {max(0, steps)} steps: {shot} killed"
        print(f"{told}, exit {code} after {time.monotonic() - began - lived:.1f} s", flush=True)
    attempts.start()
    assert attempts.ended() == 0, attempts.log()[-3000:]


@only_with_all
def test_a_run_survives_kills_at_random(tmp_path: Path) -> None:
    """Ten times in 600 steps; compared with the run that nobody disturbs, the curve is the same, to the bit.

    So is the policy, up to rounding: when the drafter was trained is for the clock to say, and log-probs of steps with other drafts
    differ in their last digits.
    """
    chance = random.Random(SEED)
    steps = 600  # a run goes on for 17 seconds until it notices that Ray is dead
    parts = [list(PARTS)[index % len(PARTS)] for index in range(KILLS)]
    chance.shuffle(parts)
    config = configuration(tmp_path, steps)
    attempts = Attempts(tmp_path / "killed", config)
    survive(attempts, parts, chance)
    check(attempts, steps)
    calm = Attempts(tmp_path / "calm", config)
    survive(calm, [], chance)
    assert calm.curve() == attempts.curve()
    torch.testing.assert_close(policy(calm), policy(attempts), atol=1e-5, rtol=0)


@only_with_all
def test_an_asynchronous_run_survives_kills_at_random(tmp_path: Path) -> None:
    """A worker that dies while it generates and learns ends the attempt; the next one learns from every prompt, and once."""
    chance = random.Random(SEED)
    steps = 120
    rollout = {"max_prompt_tokens": 16, "max_new_tokens": 32, "max_batch": 8, "scheduling": {"asynchronous": True}}
    attempts = Attempts(tmp_path / "killed", configuration(tmp_path, steps, rollout=rollout))
    survive(attempts, ["worker", "everything"], chance)
    assert list(attempts.curve()) == list(range(steps))
    for _, finished in attempts.story():
        for event in finished:
            assert event.metrics["staleness_max"] <= 1
            assert event.metrics["discarded_tokens"] == 0
    assert attempts.processes() == set()
