"""How busy the machine of a worker is, sampled beside the training: for people, who must be able to lose it."""

import os
import threading
import weakref
from collections import deque
from statistics import fmean

import psutil
import torch

PERIOD = 1.0
KEPT = 10_000


class UsageSampler:
    """Samples every ``period`` seconds in a thread, as long as it lives. Should sampling fail, the thread ends and the training goes on."""

    def __init__(self, period: float = PERIOD) -> None:
        self._samples: deque[dict[str, float]] = deque(maxlen=KEPT)
        ended = threading.Event()
        weakref.finalize(self, ended.set)
        threading.Thread(target=_follow, args=(self._samples, ended, period), name="usage", daemon=True).start()

    def take(self) -> dict[str, float]:
        """Since the last call: means of use (%), and the most memory that was taken (GB). Empty if no sample was due."""
        samples = [self._samples.popleft() for _ in range(len(self._samples))]
        summed = {name: max if "memory" in name else fmean for name in (samples[0] if samples else ())}
        return {name: summary(sample[name] for sample in samples) for name, summary in summed.items()}


def _follow(samples: deque[dict[str, float]], ended: threading.Event, period: float) -> None:
    psutil.cpu_percent()  # the next call is about the time since this one
    while not ended.wait(period):
        samples.append(sample())


def sample() -> dict[str, float]:
    """Use of all cores since the last call and memory taken, on this machine by everybody; and of each GPU that this process may use."""
    memory = psutil.virtual_memory()
    figures = {"cpu_percent": psutil.cpu_percent(), "memory_gb": (memory.total - memory.available) / 1e9, "memory_percent": memory.percent}
    for index, name in enumerate(_gpus()):
        figures[f"gpu{name}_percent"] = float(torch.cuda.utilization(index))
        figures[f"gpu{name}_memory_gb"] = torch.cuda.device_memory_used(index) / 1e9
    return figures


def _gpus() -> list[str]:
    """The machine's own numbers of them, so that those of several workers do not meet."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return visible.split(",")[:count] if visible else [str(index) for index in range(count)]
