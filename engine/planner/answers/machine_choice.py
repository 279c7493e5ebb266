"""Time and money against the number of GPUs, and the cheapest machines for a deadline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.config import RunConfig
from engine.errors import ConfigError
from engine.planner.answers.arms import CHANGES, arm, changed
from engine.planner.answers.basis import Basis
from engine.planner.hardware import Machines

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
STEPS = 4


@dataclass(frozen=True)
class Offer:
    """What a run takes on these machines, with TLT and plain."""

    machines: str
    gpus: int
    hours: float
    dollars: float
    plain_hours: float
    plain_dollars: float


Based = Callable[[Machines], Basis]
"""What a plan on these machines rests on; ConfigError if the run does not fit."""


def by_count(based: Based, config: RunConfig, machines: Machines) -> list[Offer]:
    """On so many GPUs of the same kind as are enough and of use."""
    kinds = (Machines(machines.name, machines.gpu, count, machines.price) for count in COUNTS)
    found = (_offer(based, config, each) for each in kinds)
    return [offer for offer in found if offer is not None]


def cheapest(based: Based, config: RunConfig, kinds: Sequence[Machines], deadline: float) -> list[Offer]:
    """Of each of the ``kinds``, whatever their count, the cheapest set with which the run is over in ``deadline`` hours, the cheapest
    first."""
    found: list[Offer] = []
    for kind in kinds:
        offers = by_count(based, config, kind)
        found += sorted((offer for offer in offers if offer.hours <= deadline), key=lambda offer: offer.dollars)[:1]
    return sorted(found, key=lambda offer: offer.dollars)


def _offer(based: Based, config: RunConfig, machines: Machines) -> Offer | None:
    """None if the run does not fit, or has no work for all of them."""
    if machines.count // config.rollout.gpus > config.algorithm.prompts_per_step:
        return None
    try:
        found = based(machines)
    except ConfigError:
        return None
    plain, tlt = (arm(found.with_config(changed(found.config, CHANGES[name])), steps=STEPS) for name in ("plain", "TLT"))
    return Offer(str(machines), machines.count, tlt.hours, tlt.dollars, plain.hours, plain.dollars)
