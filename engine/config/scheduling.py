"""What a run does about its rollouts' tails beside speculation."""

from pydantic import Field, model_validator

from engine.config.section import Section


class SchedulingConfig(Section):
    """All off: each response is generated in one piece, by the policy that learns from it."""

    longest_first: bool = Field(
        False, description="Share prompts out by the length of the responses that is predicted from earlier steps, the longest first"
    )
    over_sampling: float = Field(
        1.0, ge=1, le=4, description="Prompts started for each one needed; once enough are answered, the rest is stopped. 1 is off"
    )
    partial: bool = Field(
        False, description="Stopped responses are gone on with in the next step; otherwise they are lost, long ones more often"
    )
    asynchronous: bool = Field(
        False,
        description="Generate the next steps' responses while the policy learns, and go on with each new policy; nothing is stopped",
    )
    max_staleness: int = Field(
        1,
        ge=1,
        le=16,
        description="Of asynchronous: updates between the policy that writes a token and the one that learns from it, at most; a response "
        "that could exceed it is begun later",
    )

    @model_validator(mode="after")
    def _something_to_go_on_with(self) -> "SchedulingConfig":
        if self.partial and self.over_sampling == 1:
            raise ValueError("partial: with over_sampling=1 nothing is stopped; set it to 1.5, say, or partial to false")
        return self

    @model_validator(mode="after")
    def _one_way_to_run_ahead(self) -> "SchedulingConfig":
        if self.asynchronous and self.over_sampling > 1:
            raise ValueError(
                f"over_sampling={self.over_sampling} stops responses, and asynchronous=True none; set over_sampling to 1, or asynchronous "
                "to false"
            )
        return self

    @property
    def ahead(self) -> int:
        """Steps whose responses may be generated before theirs."""
        return self.max_staleness if self.asynchronous else 0
