"""How old the policies are that wrote what a step learns from, and what may be begun so that none is too old. Pure.

The policy of version v has learned from the steps 0 to v - 1, so that step v is the one that it learns from next.
"""

from collections.abc import Sequence

from engine.rollout.interface import Completion


def begun_by(version: int, bound: int, steps: int) -> range:
    """Of a run of ``steps``, those whose responses may be generated under the policy of ``version``: no token of them can be older than
    ``bound`` updates when it is learned from, however long its response takes."""
    return range(version, min(version + bound + 1, steps))


def staleness(completions: Sequence[Completion], step: int) -> dict[str, float]:
    """Metrics of what ``step`` learns from, over all tokens: ``stale_share``, those of an older policy; ``staleness_mean`` and
    ``staleness_max``, in updates."""
    spans = [span for completion in completions for span in completion.spans]
    ages = [(step - version, tokens) for version, tokens in spans]
    tokens = max(1, sum(count for _, count in ages))
    return {
        "stale_share": sum(count for age, count in ages if age > 0) / tokens,
        "staleness_mean": sum(age * count for age, count in ages) / tokens,
        "staleness_max": float(max((age for age, _ in ages), default=0)),
    }
