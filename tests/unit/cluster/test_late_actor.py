"""Actors that are made in processes of their own, without what makes them being imported here."""

import gc
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from engine.cluster.late_actor import LateActor, LateHandle, uncollected

MODELS = ("transformers.modeling_utils", "torch._dynamo", "torch.distributed.tensor")
"""What takes seconds to import, and only workers need."""
RESULTS = ("engine.cluster.shares", "engine.cluster.spot_training.trained_session", "engine.pretraining.pretraining_round")
"""Where the classes are of what workers answer."""


def test_a_handle_asks_for_the_methods_of_what_the_actor_has_made() -> None:
    made = LateActor("collections", "Counter", "abba")
    told: list[dict[str, Any]] = []

    def with_options(**options: Any) -> Any:
        told.append(options)
        return SimpleNamespace(remote=made.call)

    handle = LateHandle(SimpleNamespace(call=SimpleNamespace(remote=made.call, options=with_options)))
    assert handle.most_common.remote(1) == [("a", 2)]
    assert handle.total.options(concurrency_group="control").remote() == 4
    assert told == [{"concurrency_group": "control"}]


def test_what_is_imported_is_not_looked_through_neither_then_nor_later() -> None:
    before = gc.get_freeze_count()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    gc.unfreeze()


def test_the_training_loop_does_not_wait_for_the_modules_of_models() -> None:
    """Its process has neither a model nor a drafter: what it imports comes before anything else of a run."""
    imported = f"import sys, engine.run, {', '.join(RESULTS)}; print([name for name in {MODELS} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
