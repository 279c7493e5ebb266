"""What the page of workers says of what they carry."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.views.workers.worker_table import carried
from longtail.schemas.queue import Lease

NOW = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)


def lease(claimed: float | None, expires: float | None) -> Lease:
    """Claimed so many seconds ago, for as many seconds more."""
    times = {
        "claimed_at": None if claimed is None else NOW - timedelta(seconds=claimed),
        "expires_at": None if expires is None else NOW + timedelta(seconds=expires),
    }
    facts = {
        "run_id": "a",
        "run_name": "a",
        "state": "running",
        "step": 8,
        "steps": 24,
        "attempt": 1,
        "gpus": ["0", "1"],
        "pretraining": None,
    }
    return Lease.model_validate(facts | times)


@pytest.mark.parametrize(
    ("claimed", "expires", "told"),
    [
        (905, 30, "held for 15\xa0min 5\xa0s, lease for 30.0\xa0s more"),
        (905, -3, "held for 15\xa0min 5\xa0s, lease ended 3.00\xa0s ago"),
        (None, None, "no lease"),
    ],
)
def test_how_long_a_run_is_held(claimed: float | None, expires: float | None, told: str) -> None:
    assert carried(lease(claimed, expires), NOW) == f"8 of 24 steps, attempt 1, on GPU 0, 1, {told}"
