"""Of a comparison of two runs: how much faster, why, and at what cost in reward."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard.analysis.comparability import other_work
from dashboard.charts.amdahl import end_to_end
from dashboard.text.escaping import escaped
from dashboard.text.formats import count, number, percent, ratio
from dashboard.views.compare.plain_twin import plain_twin
from longtail.schemas.comparison import ComparedRun, ConfigDifference

LEAST_GAIN = 0.0005
"""Of a reward: less is not seen in three digits."""


def speedup_cards(baseline: ComparedRun, other: ComparedRun, name: str, differences: Sequence[ConfigDifference]) -> None:
    """End to end, what it is made of, and what it did to the reward; or why nobody can say."""
    if other.confounders:
        _not_comparable(baseline, other, differences)
        return
    share, speedup = baseline.rollout_share, other.rollout_speedup
    predicted = end_to_end(share, speedup) if share is not None and speedup else None
    gain = other.reward_last - baseline.reward_last if other.reward_last is not None and baseline.reward_last is not None else None
    is_same = gain is not None and abs(gain) < LEAST_GAIN
    end_to_end_card, rollout, rollout_share, reward = st.columns(4)
    frame: dict[str, Any] = {"border": True, "height": "stretch"}
    over = f"{escaped(name)} against the baseline, over {count(other.steps, 'step')}"
    end_to_end_card.metric("End to end", ratio(other.e2e_speedup), help=over, **frame)
    rollout.metric("Rollout", ratio(speedup), help="Speed-up r of the rollout phase", **frame)
    law = f"Share s of a step; 1 / ((1 - s) + s / r) = {ratio(predicted)}"
    rollout_share.metric("Rollout share of the baseline", percent(share), help=law, **frame)
    reward.metric(
        "Reward, last quarter",
        number(other.reward_last, 3),
        None if gain is None else "as the baseline" if is_same else f"{gain:+.3f} against the baseline",
        delta_color="off",
        delta_arrow="off" if is_same else "auto",
        **frame,
    )


def _not_comparable(baseline: ComparedRun, other: ComparedRun, differences: Sequence[ConfigDifference]) -> None:
    with st.container(border=True, key="not-comparable"):
        what = escaped(other_work(baseline, other, differences))
        st.markdown(f"**No speed-up can be told: these two do different work.** They differ in {what}.")
        st.caption("A run is measured by its plain twin: the same configuration and seed, with speculation off.")
        with st.container(horizontal=True):
            for item in (baseline, other):
                plain_twin(item.run)
