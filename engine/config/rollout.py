"""What can be set of the rollouts."""

from typing import Annotated, Literal

from pydantic import Field

from engine.config.scheduling import SchedulingConfig
from engine.config.section import HostPathText, Section


class SGLangConfig(Section):
    """Of SGLang alone (rollout.engine=sglang, or auto where that is it)."""

    tensor_parallel: int = Field(1, ge=1, le=64, description="GPUs of one machine that each worker has: its engine is spread over them")
    mem_fraction: float = Field(
        0.5, gt=0, lt=1, description="Share of a GPU's memory for SGLang's weights and cache; training has the rest"
    )
    draft_model: HostPathText | None = Field(
        None, min_length=1, description="Local folder of a small model with the same tokens, to draft in place of the learned drafter"
    )
    release_memory: bool = Field(False, description="Between rollouts training has the memory of SGLang's cache, too (its memory saver)")


class RolloutConfig(Section):
    engine: Literal["auto", "native", "sglang"] = Field(
        "auto",
        description="Rollout engine: native (ours, any machine), sglang (the extra sglang, on CUDA), or auto: sglang where there is CUDA "
        "and the package and it can do what the run asks for, else native",
    )
    sglang: SGLangConfig = Field(default_factory=SGLangConfig)
    temperature: float = Field(1.0, ge=0, le=10, description="0 is greedy")
    top_p: float = Field(1.0, gt=0, le=1, description="Draw from the likeliest tokens that together have this probability; 1 is off")
    top_k: int = Field(0, ge=0, description="0 is off")
    min_p: float = Field(0.0, ge=0, lt=1, description="Drop tokens less likely than this share of the likeliest one; 0 is off")
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), description="Strings that end a response")
    max_prompt_tokens: int = Field(256, ge=1, description="A longer prompt is an error, never cut")
    max_new_tokens: int = Field(1024, ge=1, description="Length limit of a response; memory, and the wait for the longest, grow with it")
    max_batch: int = Field(64, ge=1, le=4096, description="Requests that one worker decodes at once")
    cache_tokens: int | None = Field(
        None, ge=1, description="Tokens that the native engine's cache has room for; if that is full, requests wait (None: all that fit)"
    )
    scheduling: SchedulingConfig = Field(default_factory=SchedulingConfig)

    @property
    def gpus(self) -> int:
        """What a worker needs, where there are any."""
        return self.sglang.tensor_parallel if self.engine != "native" else 1
