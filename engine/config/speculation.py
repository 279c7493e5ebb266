"""What can be set of speculative decoding: who drafts, how much, and what decides that."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from engine.config.section import Section

DrafterName = Literal["none", "eagle", "ngram"]


class StrategyConfig(Section):
    """One speculative strategy: depth drafted levels, top_k branches a level, verify drafted tokens checked in one target pass."""

    drafter: Literal["eagle", "ngram"] = Field("eagle", description="eagle: the learned drafter; ngram: what siblings wrote before")
    depth: int = Field(ge=1, le=32)
    top_k: int = Field(1, ge=1, le=16, description="1 is a chain; more is a tree")
    verify: int = Field(ge=1, le=128)

    @model_validator(mode="after")
    def _enough_drafts(self) -> "StrategyConfig":
        if self.drafter == "ngram" and self.top_k > 1:
            raise ValueError(f"top_k={self.top_k}, but ngram drafts are chains; set top_k to 1, or drafter to eagle")
        drafted = self.depth if self.top_k == 1 else self.top_k + (self.depth - 1) * self.top_k**2
        if self.verify > drafted:
            shape = f"the {drafted} tokens that depth={self.depth} and top_k={self.top_k} draft"
            raise ValueError(f"verify={self.verify} exceeds {shape}; lower it, or raise one of those")
        return self


class BegConfig(Section):
    """BEG-MAB, Algorithm 1 of TLT. Bucket i starts at thresholds[i] and uses the i-th largest group of equal ``verify``."""

    name: Literal["beg"] = "beg"
    epsilon: float = Field(0.1, ge=0, le=1, description="Share of decode steps that explore")
    window: int = Field(64, ge=1, description="Recent measurements kept for each strategy")
    thresholds: tuple[int, ...] | None = Field(
        None, description="Smallest batch size of each bucket, rising, the first is 1; null doubles from bucket to bucket: 1, 2, 4 ..."
    )
    off_arm: bool = Field(True, description="Plain decoding is one more arm of every bucket; false is Algorithm 1 to the letter")

    @model_validator(mode="after")
    def _rising(self) -> "BegConfig":
        bounds = self.thresholds
        if bounds is not None and (not bounds or bounds[0] != 1 or list(bounds) != sorted(set(bounds))):
            raise ValueError("thresholds must start with 1 and rise, such as [1, 3, 9]")
        return self


class GoodputConfig(Section):
    """Most tokens per second, by measured step times and acceptance by draft position; plain decoding is an arm like any other."""

    name: Literal["goodput"] = "goodput"
    memory: int = Field(
        512, ge=16, description="Drafts after which an observation of acceptance counts 1/e; with few requests at once it does sooner"
    )
    widen: float = Field(0.25, ge=0, le=1, description="What a weight update leaves of the certainty about acceptance")
    interval: int = Field(8, ge=1, description="Decode steps that a decision holds for at one batch size, once it was confirmed")


class FixedConfig(Section):
    """Always the first strategy; for measurements."""

    name: Literal["fixed"] = "fixed"


TunerConfig = Annotated[BegConfig | GoodputConfig | FixedConfig, Field(discriminator="name")]


def _default_strategies() -> tuple[StrategyConfig, ...]:
    """Depth, top_k and verify. Of one request five drafts make a pass of six rows, which a CPU multiplies in the time of one in float16."""
    learned = ((8, 4, 24), (6, 3, 11), (3, 2, 5), (8, 1, 8), (5, 1, 5), (3, 1, 3), (2, 1, 2), (1, 1, 1))
    eagle = (StrategyConfig(depth=depth, top_k=top_k, verify=verify) for depth, top_k, verify in learned)
    return (*eagle, StrategyConfig(drafter="ngram", depth=8, verify=8))


class SuffixConfig(Section):
    """The model-free drafter: what siblings of a prompt wrote, in this step and in earlier ones."""

    enabled: bool = Field(True, description="Draft a request from its siblings' text where that matches well")
    memory_bytes: int = Field(64 * 2**20, ge=2**16, description="Host memory for remembered responses, per worker; oldest prompts go first")


class SpeculationConfig(Section):
    enabled: bool = Field(True, description="The one switch: false runs stock decoding and no drafter at all (the plain baseline)")
    threshold: int = Field(64, ge=1, description="Speculation starts once a worker runs at most this many requests")
    hysteresis: float = Field(0.25, ge=0, le=10, description="It stops above threshold * (1 + hysteresis) requests only")
    strategies: tuple[StrategyConfig, ...] = Field(default_factory=_default_strategies)
    tuner: TunerConfig = Field(
        GoodputConfig(), description="What chooses the strategy: goodput (measured costs), beg (the bandit of TLT) or fixed (the first one)"
    )
    suffix: SuffixConfig = Field(default_factory=SuffixConfig)
    rest: int = Field(8, ge=0, description="RL steps without speculation after two rollouts for which it did nothing; 0: it never rests")

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_gone(cls, data: Any) -> Any:
        """Runs of earlier versions, which could plan the last ``tail_requests`` of a rollout one by one, go on without that."""
        return {key: value for key, value in data.items() if key != "tail_requests"} if isinstance(data, dict) else data

    @field_validator("strategies")
    @classmethod
    def _at_least_one(cls, strategies: tuple[StrategyConfig, ...]) -> tuple[StrategyConfig, ...]:
        """A min_length would also complain where there are some, but wrong ones."""
        if not strategies:
            raise ValueError("must name at least one; leave it out for the usual ones, or set speculation.enabled to false")
        return strategies

    @model_validator(mode="after")
    def _a_group_for_each_bucket(self) -> "SpeculationConfig":
        groups = len({strategy.verify for strategy in self.strategies})
        if isinstance(self.tuner, BegConfig) and self.tuner.thresholds is not None and groups != len(self.tuner.thresholds):
            raise ValueError(
                f"tuner.thresholds has {len(self.tuner.thresholds)} values, and the strategies have {groups} distinct values of verify; "
                f"give {groups}, or null"
            )
        return self
