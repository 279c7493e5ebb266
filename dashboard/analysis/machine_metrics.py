"""The metrics of machines, ``system/HOST/cpu_percent``, ``system/HOST/gpu0_memory_gb`` and so on, by what they measure."""

import re
from collections import defaultdict
from collections.abc import Mapping

from dashboard.text.natural_order import natural_order
from longtail.schemas.telemetry import Series

PREFIX = "system/"
_NAME = re.compile(rf"{PREFIX}(?P<host>.+)/(?:gpu(?P<gpu>[^_/]+)_)?(?P<figure>(?:cpu_|memory_)?percent|memory_gb)")


def by_kind(metrics: Mapping[str, Series]) -> dict[str, dict[str, Series]]:
    """Series by kind (cpu_percent, memory_gb, memory_percent, gpu_percent or gpu_memory_gb) and part: ``system/node-1/gpu0_percent`` is
    gpu_percent of "node-1 GPU 0". Without what is no metric of a machine."""
    found: dict[str, dict[str, Series]] = defaultdict(dict)
    for key in sorted(metrics, key=natural_order):
        if match := _NAME.fullmatch(key):
            host, gpu, figure = match["host"], match["gpu"], match["figure"]
            kind, part = (f"gpu_{figure}", f"{host} GPU {gpu}") if gpu else (figure, host)
            found[kind][part] = metrics[key]
    return dict(found)
