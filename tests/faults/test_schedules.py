"""Random schedules: a few of them, with each kind of fault and of platform; ``make test-all`` plays 200."""

import os

import pytest
import redis_for_tests
from arena import Arena
from schedules import play
from sizes import ALL

FIRST = int(os.environ.get("LONGTAIL_FAULT_SEED", "0"))
SEEDS = range(FIRST, FIRST + 200) if ALL else (3, 7, 13)


def kind(seed: int) -> str:
    """Every fourth on PostgreSQL, of these every other with Redis."""
    return "sqlite" if seed % 4 < 3 else "redis" if seed % 8 == 7 and redis_for_tests.server() else "postgresql"


@pytest.mark.parametrize(
    ("arena", "seed"),
    [(kind(seed), seed) for seed in SEEDS],
    indirect=["arena"],
)
def test_no_schedule_of_faults_loses_doubles_or_hangs_a_run(arena: Arena, seed: int) -> None:
    for line in play(arena, seed):
        print(line)
