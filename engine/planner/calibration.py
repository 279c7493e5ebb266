"""How much of a machine's peak a model reaches, and how many drafts are accepted: constants of calibration.yaml, where is told what they
were fitted to."""

from functools import cache
from pathlib import Path

import yaml
from pydantic import Field

from engine.config.section import Section

FILE = Path(__file__).with_name("calibration.yaml")


class Efficiency(Section):
    """Shares of a peak that is reached, and what a pass costs whatever its size, in seconds."""

    memory: float = Field(gt=0, le=1.2, description="of the memory bandwidth, in decoding")
    compute: float = Field(gt=0, le=1, description="of the FLOPS, in decoding")
    prefill: float = Field(gt=0, le=1, description="of the FLOPS, in prefill")
    training: float = Field(gt=0, le=1, description="of the FLOPS, in forward and backward passes of the learner")
    overlap: float = Field(ge=1, description="norm in which the times of memory and compute add up: 1 one after the other, large: at once")
    layer: float = Field(ge=0, description="launches and norms of a layer, in a pass")
    exchange: float = Field(ge=0, description="latency of one all-reduce of a layer, with tensor parallelism")
    level: float = Field(ge=0, description="a drafted level, beside its matrix products")
    verify: float = Field(ge=0, description="a decode step with drafts, beside its passes")


class Acceptance(Section):
    """Of the drafter's drafts: see ``engine.planner.simulation.acceptance``."""

    first: float = Field(gt=0, lt=1, description="that its likeliest token is accepted, after it was trained on the target")
    static: float = Field(gt=0, lt=1, description="the same, of a drafter that never follows the target")
    breadth: float = Field(ge=0, description="exponent by which more branches miss less often")
    decay: float = Field(gt=0, le=1, description="what is left of it at each further level")
    ngram: float = Field(gt=0, lt=1, description="of an n-gram's tokens")
    ngram_found: float = Field(gt=0, le=1, description="share of decode steps that find an n-gram to draft from")


class Learning(Section):
    """How the drafter follows its target in idle time."""

    tokens: float = Field(gt=0, description="trained tokens after which 1/e of what can be learnt is left")
    drift: float = Field(ge=0, le=1, description="share of what was learnt that a policy update takes away")


class Calibration(Section):
    efficiency: Efficiency
    acceptance: Acceptance
    learning: Learning


@cache
def usual() -> Calibration:
    """That of calibration.yaml."""
    return Calibration.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8")))
