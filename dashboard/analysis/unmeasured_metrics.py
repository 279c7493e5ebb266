"""Metrics that a run has no values of, as its configuration says."""

from collections.abc import Mapping
from typing import Any

from dashboard.analysis.run_config import section

WITHOUT_KL = "Not measured: without algorithm.kl_coefficient nobody looks up what the start policy would say."
NOTHING_STALE = "All tokens are the present policy's: rollout.scheduling carries nothing over."


def why_unmeasured(config: Mapping[str, Any], key: str) -> str | None:
    """None where the configuration gives no reason: then values are yet to come, or the engine does not tell."""
    if key == "kl" and section(config, "algorithm").get("kl_coefficient") == 0:
        return WITHOUT_KL
    if key == "stale_share" and not _carries_over(section(section(config, "rollout"), "scheduling")):
        return NOTHING_STALE
    return None


def _carries_over(scheduling: Mapping[str, Any]) -> bool:
    return bool(scheduling.get("asynchronous")) or scheduling.get("over_sampling", 1) != 1
