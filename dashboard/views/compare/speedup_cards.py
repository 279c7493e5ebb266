"""How much faster one run is than another, why, and at what cost in reward; or why nobody can say."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.analysis.comparability import other_work, without_yardstick, work_is_known
from dashboard.charts.amdahl import end_to_end
from dashboard.text.escaping import escaped
from dashboard.text.formats import count, number, percent, ratio
from dashboard.views.compare.plain_twin import plain_twins
from longtail.schemas.comparison import ComparedRun, Comparison, ConfigDifference

LEAST_GAIN = 0.0005
"""Of a reward: less is not seen in three digits."""
TWIN = "A run is measured by its plain twin: the same configuration and seed, with speculation off."


def speedup_cards(baseline: ComparedRun, other: ComparedRun, name: str, differences: Sequence[ConfigDifference]) -> None:
    """End to end, what it is made of, and what it did to the reward; or why nobody can say."""
    if other.confounders or not work_is_known(baseline, other):
        _not_comparable(baseline, other, differences)
        return
    if not other.steps:
        st.info("**No speed-up can be told: these two have no step in common.**")
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
        if work_is_known(baseline, other):
            what = escaped(other_work(baseline, other, differences))
            st.markdown(f"**No speed-up can be told: these two do different work.** They differ in {what}.")
        else:
            st.markdown("**No speed-up can be told: what work a script does is not known.** Its configuration says what the script likes.")
        st.caption(TWIN)
        both = [baseline.run, other.run]
        plain_twins(both, both)


def unmeasured_runs(comparison: Comparison, names: Mapping[str, str]) -> None:
    """Of more than two: the TLT runs of which no speed-up can be told, why, and the way to their plain twins. It can be unfolded, since
    who compares the settings of a sweep need not measure each of its runs."""
    first, differences = comparison.items[0], comparison.config_diff
    if not (found := without_yardstick(comparison.items, differences)):
        return
    with st.expander(f"No speed-up can be told of {count(len(found), 'run')}", key="unmeasured"):
        st.markdown("\n".join(f"- {escaped(names[item.run.id])}: {_reason(first, item, differences)}" for item in found))
        st.caption(f"None of the plain runs here does the same work. {TWIN}")
        plain_twins([item.run for item in found], [item.run for item in comparison.items])


def _reason(baseline: ComparedRun, item: ComparedRun, differences: Sequence[ConfigDifference]) -> str:
    if item is baseline:
        return "the baseline"
    what = escaped(other_work(baseline, item, differences))
    return f"unlike the baseline in {what}" if work_is_known(baseline) else what
