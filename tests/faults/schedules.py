"""Random schedules of faults and users' wishes. A seed tells everything, so that a failure can be played again."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import history
from arena import ENGINE_NAMES, LEASE, Arena, in_background, some

from longtail import ApiError

RUNS = 4
FAULTS = 4
SPAN_SECONDS = 1.5
NOTICED_SECONDS = 10 * LEASE

Fault = Callable[[Arena, random.Random], None]


def kill_worker(arena: Arena, chance: random.Random) -> None:
    if worker := some(chance, arena.workers):
        arena.kill_worker(worker)
    arena.start_worker()


def end_worker(arena: Arena, chance: random.Random) -> None:
    """Gracefully; a new one comes at once, and both share the runs for a while."""
    if worker := some(chance, arena.workers):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
        arena.workers.remove(worker)
        arena.leaving.append(worker)
    arena.start_worker()


def worker_with_a_fatal_point(arena: Arena, chance: random.Random) -> None:
    arena.start_worker(chance.choice(arena.points))


def freeze_worker(arena: Arena, chance: random.Random) -> None:
    worker = some(chance, arena.workers)
    if worker is None:
        return
    with arena.frozen(worker):
        arena.start_worker()
        time.sleep(chance.uniform(0.2, 2 * LEASE))


def kill_engine(arena: Arena, chance: random.Random) -> None:
    if engine := some(chance, arena.engines()):
        with suppress(ProcessLookupError):
            os.kill(engine, signal.SIGKILL)


def kill_api(arena: Arena, _: random.Random) -> None:
    arena.kill(arena.api)
    arena.start_api()


def kill_everything(arena: Arena, _: random.Random) -> None:
    arena.kill_all()
    arena.start_api()
    arena.start_worker()


def delete_broker(arena: Arena, _: random.Random) -> None:
    arena.delete_broker()


def send_needless_messages(arena: Arena, _: random.Random) -> None:
    arena.send_needless_messages()


def lock_database(arena: Arena, chance: random.Random) -> None:
    arena.lock_database(chance.uniform(0.1, LEASE))


def jump_the_clock(arena: Arena, chance: random.Random) -> None:
    arena.set_clock(chance.choice([-1e5, -60, 60, 1e5]))


def user(arena: Arena, chance: random.Random) -> None:
    """Somebody pauses, resumes, cancels, retries or clones a run; refusals are fine."""
    run_id = chance.choice(arena.accepted)
    action = chance.choice(["pause", "pause", "resume", "cancel", "retry", "clone"])
    key = os.urandom(8).hex()

    def ask() -> None:
        if action in ("retry", "clone"):
            made = getattr(arena.client, action)(run_id, idempotency_key=key)
            arena.accepted.append(made.id)
        else:
            getattr(arena.client, action)(run_id)

    with suppress(ApiError):
        ask()


FAULT_LIST: tuple[Fault, ...] = (
    kill_worker,
    end_worker,
    worker_with_a_fatal_point,
    freeze_worker,
    kill_engine,
    kill_api,
    kill_everything,
    delete_broker,
    send_needless_messages,
    lock_database,
    jump_the_clock,
    user,
    user,
)


def play(arena: Arena, seed: int) -> list[str]:
    """Plays a schedule to its end and checks every run; what happened, for the record."""
    chance = random.Random(seed)
    arena.start_api()
    arena.start_worker()
    for _ in range(RUNS):
        arena.submit(chance.choice(ENGINE_NAMES), steps=chance.randint(4, 10))
    plan = sorted((chance.uniform(0, SPAN_SECONDS), chance.choice(FAULT_LIST)) for _ in range(FAULTS))
    began, told, waiting = time.monotonic(), [], list[threading.Thread]()
    for at, fault in plan:
        time.sleep(max(0.0, began + at - time.monotonic()))
        told.append(f"{time.monotonic() - began:.2f} {fault.__name__}")
        own = random.Random(chance.random())
        if fault in (freeze_worker, lock_database):
            waiting.append(in_background(lambda fault=fault, own=own: fault(arena, own)))  # type: ignore[misc]
        else:
            fault(arena, own)
    for thread in waiting:
        thread.join()
    arena.start_worker()
    try:
        arena.settle()
        for run_id in arena.accepted:
            history.check(arena.database, arena.settings, run_id)
        arena.until(lambda: not arena.engines(), NOTICED_SECONDS)
    except Exception as error:
        stories = [history.story(arena.database, arena.settings, run_id) for run_id in arena.accepted]
        raise AssertionError("\n".join([f"seed {seed}: {told}", *stories])) from error
    return told
