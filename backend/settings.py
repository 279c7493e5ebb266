"""Where this installation keeps its data and how it behaves; every field can be set as LONGTAIL_<FIELD> in the environment."""

import sys
from pathlib import Path
from typing import Literal

from pydantic import Field, IPvAnyNetwork, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from longtail.logins import DEFAULT_HOME, DEFAULT_PORT, SERVER_FILE, TOKEN_FILE
from longtail.schemas.runs import Label


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="LONGTAIL_", frozen=True)

    home: Path = Field(Path(DEFAULT_HOME), description="Data folder: database, broker, run folders")
    database_url: str = Field("", description="SQLAlchemy URL; empty is a SQLite file in home")
    broker_url: str = Field("", description="Celery broker URL; empty is a folder in home")
    host: str = "127.0.0.1"
    port: int = Field(DEFAULT_PORT, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = Field((), description="Host names beside localhost that requests may be addressed to")
    max_body_bytes: int = Field(2**20, ge=1024)
    artifact_store: str = Field("", description="Folder, or fsspec URL such as s3://bucket/prefix; empty is a folder in home")
    max_artifact_bytes: int = Field(64 * 2**30, ge=1024, description="Of an upload")
    orphan_hours: float = Field(24.0, gt=0, description="That content which no artifact refers to is kept")
    body_seconds: float = Field(30.0, gt=0, description="A request whose body takes longer to arrive is refused")
    requests_per_second: float = Field(
        500.0, gt=0, description="That one token may make, and one user twice as many; at once twice as many again"
    )
    failed_logins_per_minute: float = Field(
        10.0, gt=0, description="For one name from one address; thrice for one address, tenfold for one name"
    )
    silence_seconds: float = Field(900.0, gt=0, description="A tracked run whose script says nothing for so long is closed as failed")
    event_streams: int = Field(64, ge=1, description="That the API keeps open at a time")
    event_streams_per_user: int = Field(16, ge=1, description="Of these, that one user may have open")
    tokens_per_user: int = Field(100, ge=1, description="Of each kind: tokens, sessions, tickets; those that are over do not count")
    session_hours: float = Field(7 * 24.0, gt=0, description="After a login in the dashboard")
    open_metrics: bool = Field(False, description="GET /metrics needs no token from this machine itself")
    log_format: Literal["auto", "json", "text"] = Field("auto", description="auto: text on a terminal, else JSON lines")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    webhook_networks: tuple[IPvAnyNetwork, ...] = Field((), description="Private networks that webhooks may be sent to, also by http://")
    engine_command: tuple[str, ...] = Field(
        (sys.executable, "-m", "engine"), description="Started as COMMAND run CONFIG --out RUN_DIR --take-over"
    )
    concurrency: int = Field(1, ge=1, le=64, description="Runs that one worker process carries at a time")
    gpus: tuple[str, ...] | Literal["auto"] = Field(
        "auto", description="Those that the runs of this worker share, as CUDA_VISIBLE_DEVICES names them; auto: that variable's, or all"
    )
    labels: tuple[Label, ...] = Field(("cpu",), description="What this worker offers to runs that need it, such as cpu or gpu:h200")
    alive_file: str = Field("", description="A worker touches it at each look for runs, so that others see it work; empty: none")
    own_code: bool = Field(False, description="Runs may name functions of their users' own, and test programs without a sandbox")
    data_roots: tuple[Path, ...] = Field((), description="Folders that runs may take data from; empty: data in home, for an admin any")
    model_roots: tuple[Path, ...] = Field((), description="The same for models and drafters; empty: models in home, for an admin any")
    ray_addresses: tuple[str, ...] = Field((), description="Ray clusters that runs may join; they can run code on this host")
    max_active: int = Field(0, ge=0, description="Runs under way at a time on all workers together; 0 is no limit")
    max_active_per_owner: int = Field(0, ge=0, description="Of one owner; 0 is no limit")
    aging_seconds: float = Field(3600.0, gt=0, description="Waiting for so long is worth one point of priority")
    least_free_bytes: int = Field(256 * 2**20, ge=0, description="A worker with less space than this in home takes no run")
    lease_seconds: float = Field(
        60.0, gt=0, description="A run is taken from a worker that is silent for so long; the same on all machines"
    )
    sweep_seconds: float = Field(3.0, gt=0, description="Between two looks for queued runs and lost attempts")
    poll_seconds: float = Field(0.25, gt=0, description="Between two looks at a running engine: its events, the cancel flag")
    grace_seconds: float = Field(2.0, ge=0, description="From SIGTERM to SIGKILL")
    handover_seconds: float = Field(5.0, ge=0, description="That a worker which shuts down gives its runs to reach a step boundary")
    handover_steps: float = Field(1.0, ge=0, description="And so many steps, as long as the run's last one; none under longtail up")
    max_retries: int = Field(2, ge=0, description="Times that a lost attempt is resumed from one and the same checkpoint")
    retry_seconds: float = Field(
        120.0, ge=0, description="Before a run is resumed that was lost twice in a row; for each further loss as long again"
    )
    keep_checkpoint_days: float = Field(30.0, ge=0, description="That the last checkpoint of a failed or cancelled run is kept to retry it")
    keep_deleted_days: float = Field(7.0, ge=0, description="That a deleted run can be restored")

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'longtail.db'}"

    @property
    def runs(self) -> Path:
        return self.home / "runs"

    @property
    def broker_folder(self) -> Path:
        return self.home / "broker"

    @property
    def server_file(self) -> Path:
        """JSON that ``longtail up`` writes for clients on this machine: {"url": base URL of the API, ...}."""
        return self.home / SERVER_FILE

    @property
    def token_file(self) -> Path:
        """The admin's token that the first start has made."""
        return self.home / TOKEN_FILE

    @property
    def secret_file(self) -> Path:
        return self.home / "server.secret"

    def run_folder(self, run_id: str) -> Path:
        return self.runs / run_id
