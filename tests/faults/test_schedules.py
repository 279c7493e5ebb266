"""A sample of random schedules. More of them: LONGTAIL_FAULT_SCHEDULES=200 python -m pytest -n 0 tests/faults/test_schedules.py."""

import os

import pytest
from arena import Arena
from schedules import play

FIRST = int(os.environ.get("LONGTAIL_FAULT_SEED", "0"))
SCHEDULES = int(os.environ.get("LONGTAIL_FAULT_SCHEDULES", "20"))


@pytest.mark.parametrize(
    ("arena", "seed"),
    [("postgresql" if seed % 4 == 3 else "sqlite", seed) for seed in range(FIRST, FIRST + SCHEDULES)],
    indirect=["arena"],
)
def test_no_schedule_of_faults_loses_doubles_or_hangs_a_run(arena: Arena, seed: int) -> None:
    for line in play(arena, seed):
        print(line)
