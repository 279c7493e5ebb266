"""A private Ray on loopback for one run, or a connection to a cluster that is already there."""

import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from engine import errors
from engine.cluster import host_memory
from engine.config import ClusterConfig
from engine.errors import AttemptError, ConfigError, LongtailError, WorkerLostError
from engine.own_folders import new_folder, sweep

PREFIX = "longtail-ray-"
OBJECT_STORE_BYTES, MOST_OBJECT_STORE_BYTES = 512 * 2**20, 16 * 2**30
SHARED_MEMORY = Path("/dev/shm")
TOKEN = secrets.token_hex(32)
"""This process's own: Ray reads it once, so that later sessions must have the same."""
RAYS_CODES = (1, signal.SIGTERM)
"""Of its handlers of SIGTERM."""
NOTICED = 10.0
"""Seconds in which Ray tells of a worker that has died, after others have seen their connection to it break."""


@contextmanager
def ray_session(cluster: ClusterConfig, ranks: int = 1, unfit: type[LongtailError] = ConfigError) -> Iterator[None]:
    """Ray is up inside the block and gone after it, with its temporary folder. Never touches another Ray on this machine. ``ranks``:
    processes of a worker. AttemptError if it does not start, ``unfit`` if the cluster that the run is to join is not there."""
    folder: Path | None = None
    if cluster.ray_address is None:
        sweep(PREFIX)
        folder = new_folder(PREFIX)
        _isolate()
    import ray

    try:
        with _ended_as_before():
            if cluster.ray_address is not None:
                _attach(cluster.ray_address, unfit)
            else:
                _start(cluster, ranks, str(folder))
        yield
    finally:
        ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_as_before() -> Iterator[None]:
    """As it starts Ray takes SIGTERM for itself: first it exits, later it prints its stack, and it ends nothing in order."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is None or current_thread() is not main_thread():
        yield
        return
    told: SystemExit | None = None
    try:
        yield
    except SystemExit as error:
        if handler is signal.SIG_DFL or error.code not in RAYS_CODES:
            raise
        told = error
    finally:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:  # as it is once an end has begun
            signal.signal(signal.SIGTERM, handler)
    if told:
        signal.raise_signal(signal.SIGTERM)
        raise told


def _start(cluster: ClusterConfig, ranks: int, folder: str) -> None:
    import ray

    try:
        ray.init(
            num_cpus=cluster.workers * ranks * cluster.threads_per_worker,
            include_dashboard=False,
            object_store_memory=object_store_bytes(),
            log_to_driver=False,
            _temp_dir=folder,
        )
    except Exception as error:
        if type(error) is not Exception:  # which is all that Ray raises where it is not up in time
            raise
        reason = " ".join(str(error).split())
        raise AttemptError(f"Ray does not start here, perhaps as the machine is too busy: {reason}; start again later") from None


def object_store_bytes() -> int:
    """A quarter of the shared memory that is free, and of the memory that is available, within bounds: a large model's drafter takes a
    gigabyte, and is there for all at once. What is not used of it is not taken, but Ray does not start where it would not fit."""
    free = min(shutil.disk_usage(SHARED_MEMORY).free, host_memory.free()) if SHARED_MEMORY.exists() else 0
    return max(OBJECT_STORE_BYTES, min(MOST_OBJECT_STORE_BYTES, free // 4))


def _attach(address: str, unfit: type[LongtailError]) -> None:
    """Connects to a cluster that is there; ``unfit`` if there is none."""
    import ray

    if address.startswith("ray://") and find_spec("grpc") is None:
        raise ConfigError(
            f"cluster.ray_address: {address} needs the package ray[client]; install it, or start the run on a machine of the cluster with "
            "HOST:PORT of its head"
        )
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, RuntimeError) as error:
        raise unfit(f"cluster.ray_address: no Ray cluster to work with at {address} ({str(error).strip().splitlines()[0]})") from None


@contextmanager
def lost(where: str) -> Iterator[None]:
    """Whatever tells inside the block that a worker is gone becomes a WorkerLostError; that it could not be made for something that the
    user can mend, the error that says so."""
    from ray import exceptions as ray

    gone = (ray.RayActorError, ray.WorkerCrashedError, ray.OutOfMemoryError, ray.NodeDiedError, ray.ObjectLostError, ray.RaySystemError)
    try:
        yield
    except gone as error:
        if getattr(error, "actor_init_failed", False):  # it says itself why
            raise _told(str(error)) or error from None
        reason = str(error).strip().splitlines()[0]
        raise WorkerLostError(f"a worker died {where}; resume from the last checkpoint ({reason})") from None


def results(ray: Any, references: Sequence[Any]) -> list[Any]:
    """What workers that compute together answer to these calls. If one of them dies the others fail, too, perhaps before Ray tells of it:
    then it is its error that is raised, not theirs."""
    from ray.exceptions import RayTaskError

    try:
        found: list[Any] = ray.get(references)
    except RayTaskError as error:
        if not isinstance(error.cause, LongtailError):
            _raise_if_dead(ray, references)
        raise
    return found


def _raise_if_dead(ray: Any, references: Sequence[Any]) -> None:
    """Ray's error of a worker that has died, or dies within NOTICED seconds; others are passed over."""
    from ray.exceptions import RayTaskError

    left, until = list(references), time.monotonic() + NOTICED
    while left and (seconds := until - time.monotonic()) > 0:
        ready, left = ray.wait(left, num_returns=1, timeout=seconds)
        for reference in ready:
            with suppress(RayTaskError):
                ray.get(reference)


@contextmanager
def said() -> Iterator[None]:
    """What a worker raises that the user can mend comes as it was said, without Ray's traceback in it."""
    from ray.exceptions import RayTaskError

    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, LongtailError):
            raise error.cause from None
        raise


def _told(trace: str) -> LongtailError | None:
    """The error of ours that ends ``trace``: of a worker that could not be made Ray keeps no more than the text."""
    kind, _, message = trace.rstrip().rpartition(f"\n{errors.__name__}.")[2].partition(": ")
    found = getattr(errors, kind, None)
    return found(message) if isinstance(found, type) and issubclass(found, LongtailError) else None


def _isolate() -> None:
    """Loopback ports only, a token of this process's own, no usage report. Ray reads these when it is first imported."""
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - else anything on the machine goes before the workers
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
