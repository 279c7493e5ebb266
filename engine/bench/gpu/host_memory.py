"""The memory of the host that a process may still take, in a container, too."""

from pathlib import Path

from psutil import virtual_memory

CGROUP = Path("/sys/fs/cgroup")
CACHES = ("inactive_file", "active_file")
"""Of a container's memory what is given up when there is need."""


def free(cgroup: Path = CGROUP) -> int:
    """Bytes: the machine's, or what the limit of ``cgroup`` leaves, if it has one."""
    available: int = virtual_memory().available
    limit = cgroup / "memory.max"
    if not limit.is_file() or (most := limit.read_text(encoding="utf-8").strip()) == "max":
        return available
    lines = (cgroup / "memory.stat").read_text(encoding="utf-8").splitlines()
    caches = sum(int(line.split()[1]) for line in lines if line.split()[0] in CACHES)
    used = int((cgroup / "memory.current").read_text(encoding="utf-8"))
    return min(available, int(most) - used + caches)
