"""What becomes of the errors of workers, which Ray wraps into its own with a traceback."""

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from engine.cluster.ray_session import lost, said
from engine.errors import ConfigError, LongtailError, ModelError


def task_error(cause: Exception) -> RayTaskError:
    name = f"{type(cause).__module__}.{type(cause).__name__}".removeprefix("builtins.")
    return RayTaskError("Worker.f", f"ray::Worker.f()\n  File 'x.py', line 1, in f\n{name}: {cause}\n", cause)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("made", [True, False], ids=["in its work", "when it was made"])
@pytest.mark.parametrize("cause", [ModelError("drafter x: d2t is missing: get another"), ConfigError("a: 1\nb: 2")])
def test_what_the_user_can_mend_comes_as_it_was_said(made: bool, cause: LongtailError) -> None:
    wrapped = task_error(cause)
    with pytest.raises(type(cause)) as raised, said(), lost("here"):
        raise wrapped.as_instanceof_cause() if made else ActorDiedError.from_task_error(wrapped)  # type: ignore[no-untyped-call]
    assert str(raised.value) == str(cause)
    assert not isinstance(raised.value, RayTaskError)


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    wrapped = task_error(KeyError("x"))
    for error in (wrapped.as_instanceof_cause(), ActorDiedError.from_task_error(wrapped)):  # type: ignore[no-untyped-call]
        with pytest.raises(type(error), match="line 1, in f"), said(), lost("here"):
            raise error
