"""What becomes of the errors of workers, which Ray wraps into its own with a traceback."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine.cluster import ray_session
from engine.cluster.ray_session import _isolate, lost, results, said
from engine.errors import ConfigError, LongtailError, ModelError, WorkerLostError


@pytest.fixture(autouse=True)
def ray() -> Any:
    """Its errors. It reads how it is to be isolated when it is first imported, for all sessions of this process."""
    _isolate()
    from ray import exceptions

    return exceptions


def task_error(ray: Any, cause: Exception) -> Any:
    name = f"{type(cause).__module__}.{type(cause).__name__}".removeprefix("builtins.")
    return ray.RayTaskError("Worker.f", f"ray::Worker.f()\n  File 'x.py', line 1, in f\n{name}: {cause}\n", cause)


@pytest.mark.parametrize("made", [True, False], ids=["in its work", "when it was made"])
@pytest.mark.parametrize("cause", [ModelError("drafter x: d2t is missing: get another"), ConfigError("a: 1\nb: 2")])
def test_what_the_user_can_mend_comes_as_it_was_said(ray: Any, made: bool, cause: LongtailError) -> None:
    wrapped = task_error(ray, cause)
    with pytest.raises(type(cause)) as raised, said(), lost("here"):
        raise wrapped.as_instanceof_cause() if made else ray.ActorDiedError.from_task_error(wrapped)
    assert str(raised.value) == str(cause)
    assert not isinstance(raised.value, ray.RayTaskError)


def test_a_fault_of_ours_keeps_its_traceback(ray: Any) -> None:
    wrapped = task_error(ray, KeyError("x"))
    for error in (wrapped.as_instanceof_cause(), ray.ActorDiedError.from_task_error(wrapped)):
        with pytest.raises(type(error), match="line 1, in f"), said(), lost("here"):
            raise error


def answering(errors: dict[str, Exception], late: Sequence[str] = ()) -> Any:
    """In place of Ray, with references that are names; it knows nothing of those that are ``late`` yet when it is asked for all."""

    def get(references: Any) -> Any:
        for name in references if isinstance(references, list) else [references]:
            if name in errors and not (isinstance(references, list) and name in late):
                raise errors[name]
        return references

    def wait(names: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        assert timeout <= ray_session.NOTICED
        there = [name for name in names if name in errors][:num_returns]
        return there, [name for name in names if name not in there] if there else []

    return SimpleNamespace(get=get, wait=wait)


def test_who_dies_is_told_of_and_not_whoever_lost_the_connection_to_it(ray: Any) -> None:
    broken = task_error(ray, RuntimeError("Connection closed by peer")).as_instanceof_cause()
    for late in ([], ["dead"]):
        workers = answering({"first": broken, "dead": ray.ActorDiedError()}, late)
        with pytest.raises(WorkerLostError, match="a worker died outside a rollout"), said(), lost("outside a rollout"):
            results(workers, ["first", "dead", "third"])


def test_where_nobody_died_the_fault_stays_what_it_is(ray: Any) -> None:
    fault, own = task_error(ray, RuntimeError("no memory")).as_instanceof_cause(), task_error(ray, ModelError("a")).as_instanceof_cause()
    with pytest.raises(RuntimeError, match="no memory"), said(), lost("here"):
        results(answering({"second": fault}), ["first", "second"])
    with pytest.raises(ModelError), said(), lost("here"):
        results(answering({"first": own, "dead": ray.ActorDiedError()}, ["dead"]), ["first", "dead"])
    assert results(answering({}), ["first", "second"]) == ["first", "second"]
