"""What the tuner inside SGLang has learnt."""

from collections.abc import Callable
from typing import Any

from engine.rollout.sglang.host_process import HostProcess


class RemoteTunerState:
    """For a checkpoint; ``host`` gives the running one."""

    def __init__(self, host: Callable[[], HostProcess]) -> None:
        self._host = host

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._host().plugin("state")[0]
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        self._host().plugin("load_state", state=state)
