"""What a process may have of its host's memory."""

from pathlib import Path

from psutil import virtual_memory

from engine.cluster import host_memory


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    """But not what its caches of files hold."""
    machine = virtual_memory().total
    assert host_memory.total(tmp_path) == machine
    (tmp_path / "memory.max").write_text("max\n")
    assert host_memory.free(tmp_path) > 10**7
    assert host_memory.total(tmp_path) == machine
    for name, text in {"max": "10000000\n", "current": "9000000\n", "stat": "anon 7\ninactive_file 1000\nactive_file 234\n"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert host_memory.free(tmp_path) == 1_001_234
    assert host_memory.total(tmp_path) == 10_000_000
    (tmp_path / "memory.max").write_text(f"{2 * machine}\n")
    assert host_memory.total(tmp_path) == machine
