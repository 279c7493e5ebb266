"""The machines that a plan is for: constants of hardware.yaml, or of a file like it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from engine.config import describe
from engine.config.section import Section
from engine.errors import ConfigError

KNOWN = Path(__file__).with_name("hardware.yaml")
TERA, GIGA = 10**12, 10**9
MORE_ROOM = "lower algorithm.prompts_per_step or algorithm.group_size, take fewer GPUs, or allow more"
"""What to do where a plan does not fit into the memory of the machine that makes it."""
MOST = 8192
MOST_DOLLARS = 1e9


class Gpu(Section):
    """A row of hardware.yaml, where the units stand."""

    memory: float = Field(gt=0)
    bandwidth: float = Field(gt=0)
    flops: float = Field(gt=0)
    link: float = Field(gt=0)
    network: float = Field(gt=0)
    gpus_per_node: int = Field(8, ge=1)
    price: float = Field(ge=0)
    source: str = ""


GPUS = TypeAdapter(dict[str, Gpu])


@dataclass(frozen=True)
class Machines:
    """``count`` GPUs of one kind; ``price`` is that of a GPU for an hour, in dollars."""

    name: str
    gpu: Gpu
    count: int
    price: float

    @property
    def nodes(self) -> int:
        return -(-self.count // self.gpu.gpus_per_node)

    @property
    def dollars_per_hour(self) -> float:
        return self.count * self.price

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


def known_gpus(file: Path | None = None) -> dict[str, Gpu]:
    """Those of hardware.yaml and, before these, of ``file``; ConfigError with every fault of it."""
    found = GPUS.validate_python(_read(KNOWN))
    if file is None:
        return found
    if not file.is_file():
        raise ConfigError(f"hardware: {file} is no file; give a YAML file like engine/planner/hardware.yaml")
    try:
        return found | GPUS.validate_python(_read(file))
    except ValidationError as error:
        raise ConfigError("\n".join(f"hardware.{describe(fault)}" for fault in error.errors())) from None


def machines(text: str, price: float | None = None, file: Path | None = None) -> Machines:
    """Of ``KIND:COUNT`` such as h100:64; ConfigError names what is wrong with it, and the kinds there are."""
    gpus = {name.lower(): gpu for name, gpu in known_gpus(file).items()}
    parts = re.fullmatch(r"([\w.-]+)(?::(\d{1,9}))?", text.strip().lower())
    if not parts or parts[1] not in gpus:
        raise ConfigError(f"gpus: there is no {text!r}; choose one of {', '.join(gpus)} and how many, such as h100:8, or give --hardware")
    if not 1 <= (count := int(parts[2] or 1)) <= MOST:
        raise ConfigError(f"gpus: {count} GPUs cannot be planned (got {text!r}); give 1 to {MOST:,}")
    if price is not None and not 0 <= price < MOST_DOLLARS:
        raise ConfigError(
            f"price: must not be negative or above {MOST_DOLLARS:g} (got {price}); give dollars for a GPU-hour, or leave it out"
        )
    gpu = gpus[parts[1]]
    return Machines(parts[1], gpu, count, gpu.price if price is None else price)


def _read(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"hardware: {file} is not readable as YAML: {error}") from None
