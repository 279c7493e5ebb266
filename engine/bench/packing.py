"""``bench packing``: spot training on packed rows against padded batches of the same responses (TLT section 3)."""

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import median
from typing import Any

from torch.nn.utils.rnn import pad_sequence

from engine.bench.testbed import Bed, ratio
from engine.config import SpeculationConfig, SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.model import Drafter
from engine.drafter.offline_training import remember
from engine.drafter.packing import MicroBatch, Segment, cut, pack, rows
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import ends
from engine.rollout.interface import Sampling

RESPONSES, LONGEST = 192, 1000

Group = list[Segment]


def run(quick: bool, model: str) -> dict[str, Any]:
    """Samples per second of whole passes over one long-tailed mix, in the same random order; ``bucketed`` pads, too, but sorts by length
    first, which makes every batch one of like responses."""
    bed = Bed(model)
    trainer = _trainer(bed, RESPONSES)
    bound = trainer.config.tokens_per_microbatch
    segments = [segment for entry in trainer.buffer.mix() for segment in cut(entry, bound, trainer.config.context)]
    arms: dict[str, tuple[Callable[[], list[Group]], Callable[[Group], MicroBatch]]] = {
        "packed": (lambda: list(rows(segments, bound)), pack),
        "padded": (lambda: list(padded_groups(segments, bound)), pad),
        "bucketed": (lambda: list(padded_groups(sorted(segments, key=len), bound)), pad),
    }
    rates: dict[str, list[float]] = {name: [] for name in arms}
    steps = {name: len(groups()) for name, (groups, _) in arms.items()}
    for groups, build in arms.values():
        _rate(trainer, groups()[:2], build)
    for repetition in range(3 if quick else 7):
        Random(repetition).shuffle(segments)
        for name, (groups, build) in arms.items():
            rates[name].append(_rate(trainer, groups(), build))
    lengths = sorted(map(len, segments))
    return {
        "facts": bed.facts(),
        "samples": len(segments),
        "median_length": median(lengths),
        "longest": lengths[-1],
        "tokens_per_microbatch": bound,
        "microsteps": steps,
        **{f"{name}_samples_s": round(median(values), 1) for name, values in rates.items()},
        "spread": {name: [round(min(values), 1), round(max(values), 1)] for name, values in rates.items()},
        "speedup": ratio(list(zip(rates["packed"], rates["padded"], strict=True))),
        "speedup_over_bucketed": ratio(list(zip(rates["packed"], rates["bucketed"], strict=True))),
    }


def padded_groups(segments: Sequence[Segment], bound: int) -> Iterator[Group]:
    """Groups of segments, in their order, that padded to their longest have at most ``bound`` positions; at least one in each."""
    group: Group = []
    for segment in segments:
        longest = max(map(len, (*group, segment)))
        if group and longest * (len(group) + 1) > bound:
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def pad(group: Group) -> MicroBatch:
    """One row [T] a segment. Padding comes last, so that a causal mask alone keeps it from mattering; it is not trained on."""
    parts = [pack([segment]) for segment in group]

    def stacked(name: str) -> Any:
        return pad_sequence([getattr(part, name)[0] for part in parts], batch_first=True)

    names = ("tokens", "features", "targets", "positions", "trained", "offset")
    return MicroBatch(**{name: stacked(name) for name in names}, lengths=None)


def _trainer(bed: Bed, count: int) -> SpotTrainer:
    """On ``count`` responses of the model itself, in a buffer."""
    completions = bed.engine(SpeculationConfig()).generate(bed.requests(count, group_size=8), Sampling(max_new_tokens=LONGEST))
    buffer = DataBuffer(2**30)
    remember(buffer, 0, bed.model, [(completion.request.prompt, completion.tokens) for completion in completions])
    trainer = SpotTrainer(Drafter(bed.model.config).to(bed.device), buffer, SpotConfig())
    trainer.set_target(*ends(bed.model))
    return trainer


def _rate(trainer: SpotTrainer, groups: Sequence[Group], build: Callable[[Group], MicroBatch]) -> float:
    """Samples per second of a pass, with building its batches."""
    began = time.perf_counter()
    for group in groups:
        trainer.micro_step(build(group))
    return sum(map(len, groups)) / (time.perf_counter() - began)
