"""Why a run has no values of a metric: no reason is told that its configuration does not give."""

from typing import Any

import pytest

from backend.demo_data import telemetry
from dashboard.analysis.unmeasured_metrics import NOTHING_STALE, WITHOUT_KL, why_unmeasured


@pytest.mark.parametrize(
    ("changes", "kl", "stale"),
    [
        ({}, None, NOTHING_STALE),
        ({"algorithm": {"kl_coefficient": 0.0}}, WITHOUT_KL, NOTHING_STALE),
        ({"algorithm": {"kl_coefficient": 0.05}}, None, NOTHING_STALE),
        ({"algorithm": {"name": "dr_grpo"}, "rollout": {"scheduling": {"over_sampling": 1.5, "partial": True}}}, WITHOUT_KL, None),
        ({"rollout": {"scheduling": {"asynchronous": True}}}, None, None),
    ],
)
def test_only_what_the_configuration_leaves_out_is_called_unmeasured(changes: dict[str, Any], kl: str | None, stale: str | None) -> None:
    config = telemetry.config(**changes)
    assert [why_unmeasured(config, key) for key in ("kl", "stale_share", "entropy")] == [kl, stale, None]
