"""The GPUs of this machine: what CUDA calls them, and which ones these are, whatever somebody calls them."""

import logging
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from backend.jobs.engine.processes import boot
from longtail.schemas.attempts import Gpu

SECONDS = 30.0
"""Where no driver was loaded before, it takes long."""
MIB = 2**20
VISIBLE = "CUDA_VISIBLE_DEVICES"
NONE = {"", "-1", "NoDevFiles"}

logger = logging.getLogger(__name__)


class NamedGpu(NamedTuple):
    """``place`` is its index in this container; the ``uuid`` is the same everywhere."""

    place: str
    uuid: str
    facts: Gpu


@cache
def gpus_here() -> list[NamedGpu]:
    """What nvidia-smi tells of; none where there is none."""
    fields = "index,uuid,name,memory.total,driver_version"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    except FileNotFoundError:
        return []
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("nvidia-smi does not tell of the GPUs, so runs get none that LONGTAIL_GPUS does not name: %s", error)
        return []
    return [NamedGpu(index, uuid, _facts(*facts)) for index, uuid, *facts in re.findall(r"^(\d+), (\S+), (.+), (\S+), (\S+)$", told, re.M)]


def offered_gpus(names: Sequence[str] | Literal["auto"], environment: Mapping[str, str]) -> dict[str, str]:
    """Which GPU each of ``names`` stands for; auto: of those that a worker in this environment may use."""
    known = {each.place: each.uuid for each in gpus_here()}
    if names == "auto":
        names = [name.strip() for name in environment[VISIBLE].split(",")] if VISIBLE in environment else list(known)
    return {name: known.get(name) or _of_this_host(name) for name in names if name not in NONE}


def gpu_variables(names: Sequence[str]) -> dict[str, str]:
    """Environment in which CUDA, and with it Ray, sees these GPUs only, by the numbers that nvidia-smi gives them."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", VISIBLE: ",".join(names)}


def _of_this_host(name: str) -> str:
    """A UUID says all; a number, where nvidia-smi knows none, means something on this host only."""
    return name if name.startswith(("GPU-", "MIG-")) else f"{boot()}/{name}"


def _facts(name: str, memory: str, driver: str) -> Gpu:
    return Gpu(name=name, memory_bytes=int(memory) * MIB if memory.isdecimal() else 0, driver=driver)
