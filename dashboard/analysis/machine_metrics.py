"""The metrics of machines, ``system/HOST/cpu_percent``, ``system/HOST/gpu0_memory_gb`` and so on, by what they measure."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from longtail.schemas.telemetry import Series

PREFIX = "system/"
_NAME = re.compile(rf"{PREFIX}(?P<host>.+)/(?:gpu(?P<gpu>[^_/]+)_)?(?P<figure>(?:cpu_|memory_)?percent|memory_gb)")


class MachineMetric(NamedTuple):
    """``kind``: cpu_percent, memory_gb, memory_percent, gpu_percent or gpu_memory_gb."""

    kind: str
    part: str


def machine_metric(key: str) -> MachineMetric | None:
    """``system/node-1/gpu0_percent`` is gpu_percent of "node-1 GPU 0"; None of what is no metric of a machine."""
    match = _NAME.fullmatch(key)
    if match is None:
        return None
    host, gpu, figure = match["host"], match["gpu"], match["figure"]
    return MachineMetric(f"gpu_{figure}", f"{host} GPU {gpu}") if gpu else MachineMetric(figure, host)


def by_kind(metrics: Mapping[str, Series]) -> dict[str, dict[str, Series]]:
    """Series by kind and part."""
    found: dict[str, dict[str, Series]] = defaultdict(dict)
    for key in sorted(metrics):
        if one := machine_metric(key):
            found[one.kind][one.part] = metrics[key]
    return dict(found)
