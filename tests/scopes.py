"""Which tests stay together in one worker of pytest-xdist, and how long they take there."""

from pathlib import PurePosixPath

SHARED = {
    "browser": "browser",
    "engine_run": "engine_run",
    **dict.fromkeys(("test_fault_points", "test_schedules", "test_redis"), "arena"),
    **{f"test_sglang_{name}": "sglang" for name in ("abort", "bare", "drafts", "engine", "law", "run")},
}
"""Folders and files that share what is slow to start. Every other file is a scope of its own."""
SECONDS = {
    "browser": 550,
    "sglang": 370,
    "engine_run": 235,
    "test_backend_jobs": 220,
    "arena": 235,
    "test_demo_command": 65,
    **dict.fromkeys(("test_contract", "test_native_bits"), 65),
    **dict.fromkeys(("test_stack", "test_tail_faults"), 50),
    **dict.fromkeys(("test_code_task", "test_native_lossless", "test_real_model", "test_large_artifacts"), 35),
    **dict.fromkeys(("test_client_wheel", "test_native_laws", "test_native_endings", "test_learner_processes"), 25),
}
"""Of the scopes that take 25 or more beside two others, on a machine that does nothing else; measured with --durations."""


def scope(nodeid: str) -> str:
    file = PurePosixPath(nodeid.partition("::")[0])
    return next((SHARED[name] for name in (*file.parts[:-1], file.stem) if name in SHARED), str(file))


def seconds(nodeid: str) -> int:
    found = scope(nodeid)
    return SECONDS.get(found) or SECONDS.get(PurePosixPath(found).stem, 0)
