"""What a run does about its rollouts' tails beside speculation."""

from pydantic import Field, model_validator

from engine.config.algorithm import AlgorithmConfig
from engine.config.section import Section


class SchedulingConfig(Section):
    """All off: each response is generated in one piece, in its own step."""

    longest_first: bool = Field(
        False, description="Share prompts out by the length of the responses that is predicted from earlier steps, the longest first"
    )
    over_sampling: float = Field(
        1.0, ge=1, le=4, description="Prompts started for each one needed; once enough are answered, the rest is stopped. 1 is off"
    )
    partial: bool = Field(
        False, description="Stopped responses are gone on with in the next step; otherwise they are lost, long ones more often"
    )

    @model_validator(mode="after")
    def _something_to_go_on_with(self) -> "SchedulingConfig":
        if self.partial and self.over_sampling == 1:
            raise ValueError("partial: with over_sampling=1 nothing is stopped; set it to 1.5, say, or partial to false")
        return self


def check_scheduling(scheduling: SchedulingConfig, algorithm: AlgorithmConfig) -> None:
    """ValueError if the algorithm cannot learn from what such rollouts bring."""
    if scheduling.over_sampling > 1 and algorithm.refills:
        raise ValueError(
            f"rollout.scheduling.over_sampling={scheduling.over_sampling} and algorithm.refills={algorithm.refills} exclude each other: "
            "set over_sampling to 1 or refills to 0"
        )
    if scheduling.partial and not algorithm.rollout_correction:
        raise ValueError(
            "rollout.scheduling.partial: some tokens are those of older policies, which algorithm.rollout_correction=0 does not correct; "
            "set that to 2, say, or partial to false"
        )
