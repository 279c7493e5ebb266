"""What every part of the configuration is made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ImportPath = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
"""``package.module:function``."""


class Section(BaseModel):
    """A closed, immutable part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)
