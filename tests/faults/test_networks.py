"""A Ray cluster of three hosts with a network between them. One is cut off in mid-step: the run goes on with what is left."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import networks
import pytest
from engine_attempts import Attempts, check, configuration
from networks import Hosts
from sizes import ALL

from backend.jobs.engine.processes import attempt_variables, kill_all
from engine.errors import RESUMABLE

pytestmark = [
    pytest.mark.skipif(not ALL, reason="takes a minute: make test-all"),
    pytest.mark.skipif(not networks.permitted(), reason="making network namespaces needs root"),
    pytest.mark.slow,
]
PORT = 6379
STEPS = 16
CLUSTER = "network-test"
IMPATIENT = {  # Ray waits for a minute by default until it gives a silent host up
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
}
NETWORKED = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Ray on all three; the first is its head and has no place for a worker, the others one each."""
    with Hosts(3) as hosts, TemporaryDirectory(prefix="lt-") as folder:  # its path is short, as those of sockets must be
        try:
            for host in range(3):
                start_ray(hosts, host, folder)
            yield hosts
        finally:
            kill_all(CLUSTER, 1, None)


def start_ray(hosts: Hosts, host: int, folder: str) -> None:
    role = ["--head", "--port", str(PORT), "--include-dashboard=false"] if host == 0 else ["--address", address_of(hosts)]
    place = ["--node-ip-address", hosts.addresses[host], "--num-cpus", str(min(host, 1))]
    more = ["--object-store-memory", "100000000", "--disable-usage-stats", "--temp-dir", folder]
    start = [*hosts.within(host), sys.executable, "-m", "ray.scripts.scripts", "start", *role, *place, *more]
    subprocess.run(start, env=os.environ | NETWORKED | IMPATIENT | attempt_variables(CLUSTER, 1), check=True, timeout=60)


def address_of(hosts: Hosts) -> str:
    return f"{hosts.addresses[0]}:{PORT}"


def test_a_run_goes_on_without_a_host_that_is_cut_off(hosts: Hosts, tmp_path: Path) -> None:
    cluster = {"workers": 2, "min_workers": 1, "ray_address": address_of(hosts), "patience": 5.0, "device": "cpu"}
    attempts = Attempts(tmp_path / "run", configuration(tmp_path, STEPS, cluster=cluster), hosts.within(0), **NETWORKED)
    attempts.start()
    assert attempts.until(lambda each: each.steps() >= 7), attempts.log()[-3000:]
    hosts.pull(2)
    began = time.monotonic()
    assert attempts.ended() == RESUMABLE, attempts.log()[-3000:]
    print(f"noticed after {time.monotonic() - began:.1f} s")
    attempts.start()
    assert attempts.ended() == 0, attempts.log()[-3000:]
    print(f"done after {time.monotonic() - began:.1f} s")
    assert [first for first, _ in attempts.story()] == [0, 5]
    check(attempts, STEPS)
