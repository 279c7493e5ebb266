"""Files to download and to upload."""

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints

from longtail.schemas.base import Page, Schema

ArtifactType = Literal["drafter", "policy", "checkpoint", "file"]
FileName = Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_. -]*$")]


class Artifact(Schema):
    """One version of what a run calls ``name``: other content under a name is another version of it.

    ``stored``: whether it is in the artifact store yet, and no more in the folder of its run only. ``missing``: its content was looked
    for and is not there.
    """

    id: str
    run_id: str
    name: str
    version: int
    type: str
    bytes: int
    sha256: str
    metadata: dict[str, str] = Field(validation_alias=AliasChoices("details", "metadata"))
    created_at: datetime
    stored: bool
    missing: bool

    @property
    def file_name(self) -> str:
        """``name`` as the name of a file that is harmless in any folder."""
        return file_name(self.name)


class RunArtifactPage(Page[Artifact]):
    pass


class ArtifactCard(Artifact):
    """``card`` is the text of its model card (Markdown), where it has one."""

    card: str | None


class ListedArtifact(Artifact):
    """With where it comes from. ``accept_length`` of a drafter: that of its run's latest step, the target's own token included."""

    run_name: str
    project_id: str
    accept_length: float | None


class ArtifactPage(Page[ListedArtifact]):
    pass


def file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+|^\.+", "_", name)[:128] or "_"
