"""Which tests stay together in one worker of pytest-xdist, and how long they take there."""

from pathlib import PurePosixPath

SHARED = {
    "browser": "browser",
    **dict.fromkeys(("test_fault_points", "test_schedules", "test_redis"), "arena"),
    **{f"test_sglang_{name}": "sglang" for name in ("abort", "bare", "drafts", "engine", "law", "run")},
}
"""Folders and files that share what is slow to start. Every other file is a scope of its own."""
SECONDS = {"browser": 250, "arena": 200, "sglang": 200}
"""Of the scopes that take more than five, on an idle machine; measured with --durations."""


def scope(nodeid: str) -> str:
    file = PurePosixPath(nodeid.partition("::")[0])
    return next((SHARED[name] for name in (*file.parts[:-1], file.stem) if name in SHARED), str(file))


def seconds(nodeid: str) -> int:
    found = scope(nodeid)
    return SECONDS.get(found) or SECONDS.get(PurePosixPath(found).stem, 0)
