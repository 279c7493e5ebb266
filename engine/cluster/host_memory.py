"""The memory of the host that a process may have, in a container, too."""

from pathlib import Path

from psutil import virtual_memory

CGROUP = Path("/sys/fs/cgroup")
CACHES = ("inactive_file", "active_file")
"""Of a container's memory what is given up when there is need."""


def total(cgroup: Path = CGROUP) -> int:
    """Bytes: the machine's, or the limit of ``cgroup``, if it has one below that."""
    whole: int = virtual_memory().total
    return min(whole, _limit(cgroup) or whole)


def free(cgroup: Path = CGROUP) -> int:
    """Bytes that may still be taken: the machine's, or what the limit of ``cgroup`` leaves, if it has one."""
    available: int = virtual_memory().available
    if (limit := _limit(cgroup)) is None:
        return available
    lines = (cgroup / "memory.stat").read_text(encoding="utf-8").splitlines()
    caches = sum(int(line.split()[1]) for line in lines if line.split()[0] in CACHES)
    used = int((cgroup / "memory.current").read_text(encoding="utf-8"))
    return min(available, limit - used + caches)


def _limit(cgroup: Path) -> int | None:
    file = cgroup / "memory.max"
    if not file.is_file() or (most := file.read_text(encoding="utf-8").strip()) == "max":
        return None
    return int(most)
