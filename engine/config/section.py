"""What every part of the configuration is made of."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A closed, immutable part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)
