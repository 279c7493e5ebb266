"""Which tests stay together in one worker of pytest-xdist, and how long they take there."""

from pathlib import PurePosixPath

SHARED = {
    "browser": "browser",
    **dict.fromkeys(("test_fault_points", "test_schedules", "test_redis"), "arena"),
    **{f"test_sglang_{name}": "sglang" for name in ("abort", "bare", "drafts", "engine", "law", "run")},
}
"""Folders and files that share what is slow to start. Every other file is a scope of its own."""
SECONDS = {
    "browser": 790,
    "sglang": 430,
    "test_engine_run": 290,
    "arena": 280,
    "test_backend_jobs": 270,
    "test_engine_kills": 110,
    **dict.fromkeys(("test_contract", "test_demo_command"), 100),
    **dict.fromkeys(("test_native_bits", "test_native_lossless", "test_stack"), 60),
    **dict.fromkeys(("test_large_artifacts", "test_tail_faults", "test_real_model", "test_code_task", "test_bench_platform"), 40),
    **dict.fromkeys(("test_artifact_routes", "test_backup", "test_native_laws", "test_bench", "test_client_wheel"), 30),
    **dict.fromkeys(("test_learner_processes", "test_native_endings", "test_authorization"), 25),
}
"""Of the scopes that take 25 or more beside two others, on a machine that does nothing else; measured with --durations."""


def scope(nodeid: str) -> str:
    file = PurePosixPath(nodeid.partition("::")[0])
    return next((SHARED[name] for name in (*file.parts[:-1], file.stem) if name in SHARED), str(file))


def seconds(nodeid: str) -> int:
    found = scope(nodeid)
    return SECONDS.get(found) or SECONDS.get(PurePosixPath(found).stem, 0)
