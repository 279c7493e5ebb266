"""What decode steps take of a GPU beside weights and cache, by arithmetic: CUDA graphs, and what the largest step works on. What a cache
must leave free. Needs no torch, so that the planner says the same."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.rollout.native.graphs.plan import Capture, GraphPlan
from engine.rollout.native.row_chunks import ON_A_GPU

LIMIT = 4 * 2**30
"""Bytes of a pool's graphs, by default."""
DRIVER = 8 * 2**20
"""Bytes that the driver keeps of each graph; assumed, not measured."""
FLOAT = 4
DRAWN = 40
"""Bytes of a logit of a chunk of rows while tokens are drawn, at the worst moment, which is a cut by top-p of rows with many likely tokens:
logits, weights, copies of them in float32, and sums that count in int64."""
STREAMS = 8
"""Values of a row as wide as the model that there are at once in a layer: the residual, norms, queries, keys, values and features."""
CATCHING_UP = 4096
"""Tokens that the drafter, and of prompts the target, reads at once at most."""
UNUSED = 2**30
"""What torch cannot use of its blocks, attention's masks, and what libraries work on; assumed, not measured."""


@dataclass(frozen=True)
class Widths:
    """Values of a row: its logits, a hidden state, and all that its feed-forward network has of it at once; all but float32 logits have
    ``itemsize`` bytes."""

    vocabulary: int
    hidden: int
    feed_forward: int
    itemsize: int

    @property
    def layer(self) -> int:
        """Bytes of a row in a layer."""
        return self.itemsize * (self.feed_forward + STREAMS * self.hidden)

    @property
    def logits(self) -> int:
        """Bytes of a row of logits."""
        return FLOAT * self.vocabulary


def step_memory(plan: GraphPlan, widths: Widths) -> int:
    """Bytes of steps with the graphs of ``plan``, at most.

    Graphs keep their outputs, those of the target's pass being logits, and share what they work on. The largest step may also have no
    graph yet. Noise is kept where the graphs of drafts put it.
    """
    rows = max((capture.rows for capture in plan.target), default=0)
    eager = rows * widths.logits + max(rows * widths.itemsize * widths.vocabulary, drawing(rows, widths))
    noise = noise_rows(plan.draft) * widths.logits
    return graph_memory(plan, widths) + max(eager, CATCHING_UP * widths.layer) + noise + UNUSED


def graph_memory(captures: Iterable[Capture], widths: Widths) -> int:
    """Of a pool with these graphs; equal ones count as often as they come. Once it has ``LIMIT`` bytes, the next graph is recorded before
    others go, and has memory that they leave."""
    found = list(captures)
    kept = [DRIVER + (capture.rows * widths.logits if capture.part == "target" else widths.logits) for capture in found]
    together = sum(kept)
    return (together if together <= LIMIT else LIMIT + max(kept)) + max((_working(capture, widths) for capture in found), default=0)


def noise_rows(drafts: Iterable[Capture]) -> int:
    """Of the largest of ``drafts``: the levels of each request, and one more for what the target draws behind the last."""
    return max((capture.batch * (capture.levels + 1) for capture in drafts), default=0)


def drawing(rows: int, widths: Widths) -> int:
    """While tokens are drawn by so many rows of logits, beside these."""
    return DRAWN * min(rows * widths.vocabulary, max(ON_A_GPU, widths.vocabulary))


def _working(capture: Capture, widths: Widths) -> int:
    """What a graph's memory has that other graphs use as well. That of a target's pass ends with logits, that of drafts draws by them."""
    logits = capture.rows * widths.itemsize * widths.vocabulary
    if capture.part == "draft":
        logits += capture.rows * widths.logits + drawing(capture.rows, widths)
    return max(logits, capture.rows * widths.layer)
