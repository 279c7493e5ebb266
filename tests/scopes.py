"""Which tests stay together in one worker of pytest-xdist, and how long they take there."""

from pathlib import PurePosixPath

SHARED = {
    "browser": "browser",
    **dict.fromkeys(("test_fault_points", "test_schedules", "test_redis"), "arena"),
    **{f"test_sglang_{name}": "sglang" for name in ("abort", "bare", "drafts", "engine", "law", "run")},
}
"""Folders and files that share what is slow to start. Every other file is a scope of its own."""
SECONDS = {
    "browser": 470,
    "test_engine_run": 310,
    "arena": 270,
    "sglang": 220,
    "test_backend_jobs": 180,
    "test_engine_kills": 75,
    **dict.fromkeys(("test_large_artifacts", "test_contract", "test_demo_command", "test_stack"), 50),
    **dict.fromkeys(("test_artifact_routes", "test_backup", "test_tail_faults", "test_native_lossless"), 40),
    **dict.fromkeys(("test_client_and_commands", "test_code_task", "test_bench_platform", "test_export", "test_bench"), 30),
    **dict.fromkeys(("test_learner_processes", "test_tracker", "test_control", "test_authorization", "test_client_wheel"), 25),
}
"""Of the scopes that take 25 or more beside two others, on a machine that does nothing else; measured with --durations."""


def scope(nodeid: str) -> str:
    file = PurePosixPath(nodeid.partition("::")[0])
    return next((SHARED[name] for name in (*file.parts[:-1], file.stem) if name in SHARED), str(file))


def seconds(nodeid: str) -> int:
    found = scope(nodeid)
    return SECONDS.get(found) or SECONDS.get(PurePosixPath(found).stem, 0)
