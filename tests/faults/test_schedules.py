"""A sample of random schedules; ``make faults`` plays 200 of them."""

import os

import pytest
import redis_for_tests
from arena import Arena
from schedules import play

FIRST = int(os.environ.get("LONGTAIL_FAULT_SEED", "0"))
SCHEDULES = int(os.environ.get("LONGTAIL_FAULT_SCHEDULES", "20"))


def kind(seed: int) -> str:
    """Every fourth on PostgreSQL, of these every other with Redis."""
    return "sqlite" if seed % 4 < 3 else "redis" if seed % 8 == 7 and redis_for_tests.server() else "postgresql"


@pytest.mark.parametrize(
    ("arena", "seed"),
    [(kind(seed), seed) for seed in range(FIRST, FIRST + SCHEDULES)],
    indirect=["arena"],
)
def test_no_schedule_of_faults_loses_doubles_or_hangs_a_run(arena: Arena, seed: int) -> None:
    for line in play(arena, seed):
        print(line)
