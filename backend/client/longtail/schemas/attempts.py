"""The attempts at a run, and what each of them ran in."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from longtail.schemas.base import Page, Schema


class GitState(BaseModel):
    """``dirty``: tracked files differ from ``commit``, or there are files that git does not know."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]
    branch: Annotated[str, Field(max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    dirty: StrictBool


class Gpu(Schema):
    name: str
    memory_bytes: int
    driver: str


class Environment(Schema):
    """What an attempt ran in. ``longtail``: the git state of Longtail itself where it runs from a checkout; null: an installed one.

    ``packages`` are those that the worker's Python can import, by name. ``variables`` are those of the environment that matter to a run;
    what looks like a secret is starred out. ``rollout_engine``: which engine generates the responses, and why; null until it has started.
    """

    python: str
    platform: str
    host: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: list[Gpu]
    longtail: GitState | None
    packages: dict[str, str]
    variables: dict[str, str]
    rollout_engine: str | None = None


class Attempt(Schema):
    """One engine process. ``exit_code`` is below 0 after a signal. ``gpus``: those that it has to itself, as CUDA names them."""

    number: int
    state: Literal["running", "succeeded", "failed", "cancelled", "lost", "handed_over"]
    worker_id: str
    gpus: list[str]
    started_at: datetime
    finished_at: datetime | None
    exit_code: int | None
    error: str | None
    environment: Environment | None


class AttemptPage(Page[Attempt]):
    pass
