"""What a step's responses can teach, as metrics: a group whose rewards are all alike teaches nothing."""

from collections.abc import Sequence
from statistics import fmean

from engine.experience.evaluation import RIGHT


def learning_signal(rewards: Sequence[float], lengths: Sequence[int], truncated: Sequence[bool], size: int) -> dict[str, float]:
    """Of responses that stand group by group, ``size`` to a prompt: the shares of groups that are all right (all_right_share) or all wrong
    (all_wrong_share), the share of responses cut at the limit (truncated_share), and the mean lengths in tokens of right and of wrong
    responses (right_tokens, wrong_tokens), where there are some."""
    right = [reward >= RIGHT for reward in rewards]
    groups = [right[first : first + size] for first in range(0, len(right), size)]
    metrics = {
        "all_right_share": fmean(all(group) for group in groups),
        "all_wrong_share": fmean(not any(group) for group in groups),
        "truncated_share": fmean(truncated),
    }
    for name, wanted in (("right_tokens", True), ("wrong_tokens", False)):
        if own := [length for length, is_right in zip(lengths, right, strict=True) if is_right is wanted]:
            metrics[name] = fmean(own)
    return metrics
