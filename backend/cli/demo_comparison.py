"""What the demo says in the end: TLT beside plain decoding, for readers and for programs."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from longtail.schemas.comparison import ComparedRun, Comparison


def table(comparison: Comparison, pretrain_s: float | None = None) -> Table:
    """The baseline and TLT side by side. ``pretrain_s``: what training a drafter before them took, where there was such a thing."""
    plain, tlt = comparison.items
    rows: list[tuple[str, Callable[[ComparedRun], str]]] = [
        ("time per step", lambda item: _show(item.seconds_per_step, "{:.2f} s")),
        ("rollout share of it, s", lambda item: _show(item.rollout_share, "{:.0%}")),
        ("rollout speed-up, r", lambda item: _show(item.rollout_speedup, "{:.2f}x")),
        ("end-to-end speed-up", lambda item: _show(item.e2e_speedup, "{:.2f}x")),
        ("mean reward, first -> last quarter", lambda item: f"{_show(item.reward_first, '{:.3f}')} -> {_show(item.reward_last, '{:.3f}')}"),
        ("accept length, last quarter", lambda item: _show(item.accept_length, "{:.2f}")),
        ("idle worker time used for drafter training", lambda item: _show(item.harvest, "{:.0%}")),
    ]
    result = Table("", "plain", "TLT", title=f"TLT against plain decoding, {tlt.steps} steps")
    for name, show in rows:
        result.add_row(name, show(plain), show(tlt))
        if name == "end-to-end speed-up" and pretrain_s is not None:
            result.add_row("training of the drafter before", "-", f"{pretrain_s:.0f} s")
    return result


def result(comparison: Comparison, accept_length: Sequence[float | None], wall_s: float, pretrain_s: float | None = None) -> dict[str, Any]:
    """What other programs read; the lists hold a value for each step. ``rollout_share`` is the baseline's."""
    plain, tlt = comparison.items
    return {
        "wall_s": round(wall_s, 1),
        "e2e_speedup": tlt.e2e_speedup,
        "rollout_share": plain.rollout_share,
        "rollout_speedup": tlt.rollout_speedup,
        "reward_plain": plain.reward.values,
        "reward_tlt": tlt.reward.values,
        "accept_length": list(accept_length),
        "harvest": tlt.harvest,
    } | ({} if pretrain_s is None else {"pretrain_s": round(pretrain_s, 1)})


def _show(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
