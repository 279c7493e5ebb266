"""Files to download."""

from datetime import datetime

from pydantic import AliasChoices, Field

from backend.schemas.base import Schema


class Artifact(Schema):
    id: str
    run_id: str
    name: str
    type: str
    bytes: int
    sha256: str
    metadata: dict[str, str] = Field(validation_alias=AliasChoices("details", "metadata"))
    created_at: datetime
