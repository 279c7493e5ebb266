"""What becomes of the errors of workers, which Ray wraps into its own with a traceback."""

from typing import Any

import pytest

from engine.cluster.ray_session import _isolate, lost, said
from engine.errors import ConfigError, LongtailError, ModelError


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
