"""``bench timelines``: one step of a plain run and of a TLT run with the same seed, as a picture, one above the other.

On a CPU both generate the same responses, so that the step is the same work. Shown is the step whose speed-up is the median of all.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.bench.arms import configuration
from engine.bench.e2e import scales
from engine.bench.runs import run_engine, steps
from engine.bench.svg import BOLD, document, text
from engine.bench.testbed import machine
from engine.events import AnyEvent, WorkerSpan

TITLES = {"plain": "plain decoding", "tlt": "Longtail (TLT)"}
STATES = {
    "BUSY": ("generates responses", "#0072B2"),
    "TRAINING": ("trains the drafter", "#009E73"),
    "IDLE": ("waits", "#DDDDDD"),
    "INFERENCE": ("computes log-probs", "#56B4E9"),
    "UPDATE": ("updates the policy", "#E69F00"),
}
LEFT, RIGHT = 84, 776
LANE, GAP, PANEL, TOP = 26, 4, 96, 64


def run(quick: bool, model: str, folder: Path) -> dict[str, Any]:
    """``model`` with the settings of the demo. Times of the spans count from the beginning of the step; ``folder`` gets the runs."""
    scale = scales(quick)["demo"]
    runs = {arm: run_engine(folder / f"timelines-{arm}", configuration(scale, arm, seed=1)) for arm in TITLES}
    pairs = list(zip(steps(runs["plain"]), steps(runs["tlt"]), strict=True))[1:]
    pairs.sort(key=lambda pair: pair[0].seconds / pair[1].seconds)
    plain, tlt = pairs[len(pairs) // 2]
    facts = machine() | {"workers": 2, "model": model}
    arms = {arm: recorded(events, plain.step) for arm, events in runs.items()}
    return {"facts": facts, "step": plain.step, "speedup": round(plain.seconds / tlt.seconds, 3), **arms}


def recorded(events: Sequence[AnyEvent], step: int) -> dict[str, Any]:
    """What the workers did in one step."""
    spans = [event for event in events if isinstance(event, WorkerSpan) and event.step == step]
    began = min(span.start for span in spans)
    found = [[span.worker, span.state, round(span.start - began, 3), round(span.end - began, 3)] for span in spans]
    return {"seconds": round(max(span.end for span in spans) - began, 3), "spans": sorted(found)}


def draw(result: Mapping[str, Any]) -> str:
    """The picture, an SVG as wide as the text of a README."""
    scale = (RIGHT - LEFT) / max(result[arm]["seconds"] for arm in TITLES)
    height = TOP + PANEL * len(TITLES)
    lanes = (line for number, arm in enumerate(TITLES) for line in _panel(result, arm, TOP + PANEL * number, scale))
    found = {state for arm in TITLES for _, state, *_ in result[arm]["spans"]}
    return document(height, [*_legend(found), *lanes])


def _legend(found: Collection[str]) -> Iterator[str]:
    left = 12
    for words, shade in (STATES[state] for state in STATES if state in found):
        yield f'<rect x="{left}" y="14" width="14" height="14" fill="{shade}"/>'
        yield text(left + 20, 26, words)
        left += 38 + 8 * len(words)


def _panel(result: Mapping[str, Any], arm: str, top: int, scale: float) -> Iterator[str]:
    """Two lanes or more, with the step's seconds behind them."""
    spans, seconds = result[arm]["spans"], result[arm]["seconds"]
    yield text(12, top - 8, TITLES[arm], BOLD)
    for worker, state, start, end in spans:
        place = f'x="{LEFT + start * scale:.1f}" y="{top + worker * (LANE + GAP)}" width="{(end - start) * scale:.1f}"'
        yield f'<rect {place} height="{LANE}" fill="{STATES[state][1]}"/>'
    for worker in sorted({worker for worker, *_ in spans}):
        yield text(12, top + worker * (LANE + GAP) + 18, f"worker {worker}")
    yield text(LEFT + seconds * scale + 8, top + LANE + GAP, f"{seconds:.1f} s", BOLD)
