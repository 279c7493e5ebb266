"""What a run does about its rollouts' tails beside speculation."""

from pydantic import Field, model_validator

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
