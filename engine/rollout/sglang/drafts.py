"""What of our speculation SGLang can do: chains of the learned drafter whose length changes from step to step."""

from collections.abc import Sequence

from pydantic import ValidationError

from engine.config import RunConfig, SpeculationConfig, describe
from engine.errors import ConfigError
from engine.speculation.strategy import Strategy


def chain_speculation(config: SpeculationConfig) -> SpeculationConfig:
    """``config`` with each tree as the chain of its depth, the nearest that SGLang can change while it runs: its adaptive speculation
    asks for top_k 1. N-gram drafts, the suffix store and drafts by request are left out: one drafter serves a whole batch.

    ConfigError if no strategy of the learned drafter is left, or the tuner does not fit those that are.
    """
    depths = dict.fromkeys(min(each.depth, each.verify) for each in config.strategies if each.drafter == "eagle")
    if not depths:
        raise ConfigError("speculation.strategies: rollout.engine=sglang needs at least one with drafter eagle")
    data = config.model_dump() | {
        "strategies": [{"depth": depth, "verify": depth} for depth in depths],
        "suffix": {"enabled": False},
        "tail_requests": 0,
    }
    try:
        return SpeculationConfig.model_validate(data)
    except ValidationError as error:
        faults = "; ".join(describe(fault) for fault in error.errors())
        raise ConfigError(f"speculation: as the chains {list(depths)} that rollout.engine=sglang drafts: {faults}") from None


def chain_steps(config: SpeculationConfig) -> list[int]:
    """The lengths of chains that a batch can be drafted with; 0, which is off, among them."""
    return sorted({0, *(strategy.depth for strategy in config.strategies)})


def check(config: RunConfig, family: str) -> None:
    """ConfigError if the run asks for what SGLang would not do, or would do wrong."""
    if not config.speculation.enabled:
        return
    chain_speculation(config.speculation)
    if config.rollout.min_p > 0:
        raise ConfigError(
            f"rollout.min_p={config.rollout.min_p}: SGLang ignores min_p when it verifies drafts, so that the responses would have another "
            "law; set it to 0, or speculation.enabled to false, or rollout.engine to native"
        )
    if family == "qwen3" and config.drafter.recipe != "eagle3":
        raise ConfigError(f"drafter.recipe={config.drafter.recipe}: SGLang has no such drafter for qwen3 models; set it to eagle3")


def positions(drafted: int, accepted: Sequence[int], into: tuple[list[int], list[int]]) -> None:
    """Adds chains of ``drafted`` tokens, of which request i accepted ``accepted[i]``, to the counts (drafted, accepted) by position."""
    for counts in into:
        counts.extend([0] * (drafted - len(counts)))
    for position in range(drafted):
        into[0][position] += len(accepted)
        into[1][position] += sum(drafts > position for drafts in accepted)


def length(strategy: Strategy | None) -> int:
    """The chain's; 0 for plain decoding."""
    return strategy.depth if strategy else 0
